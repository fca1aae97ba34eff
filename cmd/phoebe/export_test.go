package main

// RunCommand runs a command line in this process.
var RunCommand = runCommand
