// Runs the `fleet` command in this process, which takes a hundredth of the time of a process. A call has its own arguments,
// environment and streams, and its connection is closed at its end. `fleet/cli/process.test.ts` proves that a process does the same.

import { join } from "node:path";
import { Readable } from "node:stream";
import { run } from "../../../services/cli/runtime/program.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { type Call, environment, type Result } from "./process.ts";

const script = join(projectRoot, "services/cli/main.ts");

/** Standard input is empty without `input`, and a pipe with it. */
export async function callCli(
  args: readonly string[],
  { input, env = {}, onError = () => {} }: Call = {},
): Promise<Result> {
  const printed = { out: "", err: "" };
  const output = (name: "out" | "err") => ({
    write: (text: string) => {
      printed[name] += text;
      if (name === "err") onError(text);
    },
  });
  const exit = await run({
    argv: args,
    script,
    env: environment(env),
    stdin: Readable.from(input === undefined ? [] : [input]) as unknown as NodeJS.ReadStream,
    inputKind: input === undefined ? "nothing" : "pipe",
    stdout: output("out"),
    stderr: output("err"),
    now: Date.now,
  });
  return { exit, ...printed };
}
