// The `fleet` command: passes arguments, streams and environment to the program, and its exit code to the shell.
// The process ends by itself when no work is left, so that no output is cut off.

import { inputKind } from "./input/input-kind.ts";
import { run } from "./runtime/program.ts";

// The reader of a pipe may close it early (`fleet … | head`); that is not an error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit();
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
