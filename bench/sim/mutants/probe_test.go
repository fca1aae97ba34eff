package mutants

// probe lists the mutants of package probe. Short and central old texts stay valid longest.
var probe = packageMutants{"probe", []mutant{
	{
		"Restamp may be of an attempt without a place", "Decoder.Decode",
		"m := Restamp{Res: ResID(r.readUint(\"res\"))", "m := Restamp{Res: r.readRes(\"res\")",
	},
}}
