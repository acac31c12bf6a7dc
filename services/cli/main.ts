// The `fleet` command: passes arguments, streams and environment to the program, and its exit code to the shell.
// The process ends by itself when no work is left, so that no output is cut off.

import { exitCodes } from "../../shared/runtime/process/startup.ts";
import { inputKind } from "./input/input-kind.ts";
import { run } from "./runtime/program.ts";

// The reader of a pipe may close it early (`fleet … | head`); that is not an error. Output that is lost otherwise is one.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", ({ code = "unknown" }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") process.exit();
    if (stream === process.stdout) process.stderr.write(`error: the output cannot be written: ${code}\n`);
    process.exit(exitCodes.cannotCreate);
  });
}

process.exitCode = await run({
  argv: process.argv.slice(2),
  script: process.argv[1],
  env: process.env,
  stdin: process.stdin,
  inputKind: inputKind(),
  stdout: process.stdout,
  stderr: process.stderr,
  now: Date.now,
});
