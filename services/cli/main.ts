// The `fleet` command: hands arguments, streams and environment to the program and its exit code to the shell.
// It ends by itself when nothing is left to do, so that no output is cut off.

import { run } from "./runtime/program.ts";

// The reader of a pipe may leave early (`fleet … | head`): that is its right, and no error.
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
  stdout: process.stdout,
  stderr: process.stderr,
  now: Date.now,
});
