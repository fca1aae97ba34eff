// Package files is a worker's cache of the files of tasks. The cache fetches missing files before a task's turn: from
// another worker's cache if possible, otherwise from the file's URL (http, https, file).
//
// A file is named by its SHA-256 digest and its size. The cache hashes a file while streaming it into a partial
// file, next to the entries. Only if digest and size are right, the cache renames the file into place, read-only.
// So no entry is ever wrong, whatever a source sends.
//
// The cache syncs nothing to the disk. A sync would keep the disk from the tasks for seconds at each large file, to
// save a fetch after a power failure. The price: the cache trusts a file of an earlier process only after hashing
// it again, at its first use. Hashing a whole cache at the start would keep a restarted worker (or a rack of
// workers) busy for minutes. And the first task to use a file must read the file from the disk anyway. Before its
// first use, an old entry is announced like any other, as a hint. Peers may fetch the file and hash the content
// themselves.
//
// Every fetch ends. The cache gives up a source that sends nothing for Options.Timeout, or crawls, and asks an
// origin again a few times if a retry may help. Then the error names the URL, the failure and a remedy. The whole
// fetch has no time limit, so a large file arrives over a slow link. A host that hangs does not delay files of
// other hosts.
//
// The folder belongs to a single Cache at a time, and only the worker's user may access it. A task that runs as the
// worker's user can still write to the folder. So before handing out a file, the cache compares the file's inode,
// size and times. Among the times is the last change (ctime), which no user can set back. If anything differs, the
// cache hashes the file again. So a task gets the content named by the digest, even if an earlier task changed the
// file and hid the change.
//
// Four kinds of write go unnoticed: during the read of another task, through a mapping, before the first hand-out,
// and by root. Small files fetched a moment ago are hashed again at their second use, because the times on disks
// are coarse.
package files
