package mutants

// frontendView lists the mutants of package frontend/view. Short and central old texts stay valid longest.
var frontendView = packageMutants{"frontend/view", []mutant{
	{
		"no more tasks are under way to a worker than its room", "Worker.Room",
		"return d.Times(w.unusedRoom())", "return d.Times(w.load.Free)",
	},
	{
		"a matrix yields to room that the worker reports later", "View.NoteRoom",
		"v.fleet.Put(s)", "_ = s",
	},
	{
		"a load after the matrix in the same frame is newer than the matrix", "Worker.hasLoadAfter",
		"matrixAt == w.heardAt && w.loadIsLater", "false",
	},
	{
		"room for long tasks leaves out the closed part", "View.NoteRoom",
		"room.Sub(closed)", "room.Sub(closed.Sub(closed))",
	},
	{
		"a worker whose cache fails gets no tasks with files", "View.NoteCache",
		"s.need.Files && s.removeWorker(w)", "false && s.removeWorker(w)",
	},
	{
		"a worker whose cache works again gets tasks with files", "View.NoteCache",
		"v.addToSets(w)", "",
	},
	{
		"a draining worker gets nothing new", "View.NoteDraining",
		"v.stopPlacing(w)\n\t\tw.state = Draining", "w.state = Draining",
	},
	{
		"a task that was enqueued counts at its worker until that has answered", "View.putRow",
		"matrix = estimate.Occupied(matrix, p.Demand, p.Short, p.Run, p.Tenant)", "_ = p",
	},
	{
		"a task that was enqueued counts in the matrix of its worker", "View.OccupyMatrix",
		"row.Matrix = &occupied", "_ = occupied",
	},
	{
		"a worker that is not up is no candidate", "View.stopPlacing",
		"s.Draining, s.Matrix = true, nil", "s.Matrix = nil",
	},
	{
		"gossip on another run of a worker does not count", "View.NoteRumour",
		"r.Incarnation != w.welcome.Incarnation ||", "",
	},
	{
		"old gossip does not count", "View.NoteRumour",
		"|| r.Seq <= w.heardSeq {", "{",
	},
	{
		"a worker that leaves has not failed", "View.NoteGone",
		"(!w.leaving || v.fleet.IsDueAway(int32(w.Key), now))", "true",
	},
	{
		"past maintenance counts as a failure", "View.NoteGone",
		" || v.fleet.IsDueAway(int32(w.Key), now)", "",
	},
	{
		"the constraint of a job holds for its tasks", "Need.isMetBy",
		"n.JobConstraint.Matches(m.Labels, m.Host, m.Worker) &&", "true &&",
	},
	{
		"the constraint of a task holds", "Need.isMetBy",
		"&& n.TaskConstraint.Matches(m.Labels, m.Host, m.Worker)", "",
	},
	{
		"tasks that need files go where there is a cache", "Need.isMetBy",
		"(!n.Files || w.HasCache())", "true",
	},
	{
		"workers where short tasks would start at once are not avoided", "View.updateAvoided",
		"m.ShortWait(slot)", "m.Wait(slot)",
	},
	{
		"on a busy machine messages are costly", "View.NoteMessageCost",
		" / (1 - min(share, maxBusy))", "",
	},
	{
		"runs of strangers count only while a tenant has none of its own", "Runs.history",
		"h.count > 0 || r.others == nil", "r.others == nil",
	},
	{
		"hints of strangers do not count", "Runs.Learn",
		"run.Hint = 0", "",
	},
	{
		"a tenant with much history pushes out its own", "holder.Before",
		"return h.entries > other.entries", "return h.entries < other.entries",
	},
	{
		"history that is used stays", "View.EnsureRuns",
		"h.lastUse = t.uses", "",
	},
	{
		"a lesson counts while it has more samples than the own history", "Runs.tenantHistory",
		"r.own.stats.N() < len(r.heard.lesson.Samples)", "r.own.stats.N() == 0",
	},
	{
		"own runs count once they are as many as a lesson has", "Runs.tenantHistory",
		"r.own.stats.N() < len(r.heard.lesson.Samples)", "true",
	},
	{
		"the better of two lessons counts", "Runs.takeLesson",
		"r.heard != nil && !l.isBetterThan(r.heard.lesson)", "false",
	},
	{
		"an old lesson of another frontend counts no more", "Runs.forgetOldLesson",
		"!r.heard.lesson.isCurrent(now)", "false",
	},
	{
		"after an old lesson the lesson of another tenant counts for strangers", "runsTable.forgetOldLessons",
		"r.others.takeLesson(r.heard.lesson.withoutTenant())", "_ = r",
	},
	{
		"an old lesson of this frontend keeps no newer lesson back", "View.Lessons",
		"r.lesson != nil && r.lesson.isCurrent(now)", "r.lesson != nil",
	},
	{
		"a lesson of another frontend is passed on", "View.Lessons",
		"best = r.heard.lesson", "_ = best",
	},
	{
		"hints of a tenant teach other tenants nothing", "Lesson.withoutTenant",
		"m.Samples[i].HintRatio = 0", "_ = i",
	},
	{
		"a full lesson is not made anew with each run", "Runs.updateLesson",
		"len(last.Samples) == estimate.MaxSamples", "false",
	},
	{
		"lessons about unknown functions push out no history", "View.TakeLessons",
		"len(t.entries) >= maxRuns", "false",
	},
	{
		"tenants share the room for lessons for a number of levels", "sortByShare",
		", maxShareLevels)", ", 1000)",
	},
	{
		"tenants share the room for lessons", "sortByShare",
		"turns[tenant]++", "",
	},
}}
