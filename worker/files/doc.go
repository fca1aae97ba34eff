// Package files is a worker's cache of the files that tasks need, and what fetches them: before the task's turn, from
// another worker's cache where one has the file, else from its URL (http, https, file).
//
// A file is named by its SHA-256 digest and its size. It is hashed while it streams into a partial file beside the
// entries, and renamed into place, read-only, only if digest and size are right: whatever a source sends, no entry is
// ever wrong. Nothing is synced to the disk: that would keep the disk from the tasks for seconds at each large file, to
// save a fetch after a power failure. In exchange what an earlier process left is believed only after it was hashed
// again, at its first use: hashing a whole cache at start would keep a restarted worker (or a rack of them) busy for
// minutes, and the first task that uses a file has to read it from the disk anyway. Until then such an entry is
// announced like others, as a hint, and served to peers, who hash what they get.
//
// Each fetch ends: a source that says nothing for Options.Timeout, or that crawls, is given up, an origin is tried again a
// few times where that may help, and then the error names the URL, what happened and what to do. There is no bound on
// the whole, so that a large file arrives over a slow link. A host that hangs keeps nobody from files of others.
//
// The folder belongs to one Cache at a time and to the worker's user alone. A task that runs as that user can still
// write to it. So each time that a file is handed out its inode, size and times are compared, with that of the last
// change among them, which no user can set back, and where they differ the file is hashed again: who is handed a file
// is handed what its digest says, even if an earlier task has changed it and hidden that. Not found is who writes to a
// file while another task reads it, through a mapping, or before it was handed out for the first time, and root. Small files that have only
// just come are hashed again at their second use, because the times on disks are coarse.
package files
