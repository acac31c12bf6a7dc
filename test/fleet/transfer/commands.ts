// The commands of a fleet under test, and the files that they write.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

export const callerEnvironment = ({ url, home }: TestFleet) => ({
  FLEET_URL: url,
  FLEET_HOME: home,
  FLEET_SPOOL_DIR: join(home, "spool"),
  COLUMNS: "160",
});

export type Command = (...args: string[]) => Promise<Result>;

/** `fleet` is called with each command, because it starts after the test is read. */
export const commandsOf =
  (fleet: () => TestFleet): Command =>
  (...args) =>
    callCli(args, { env: callerEnvironment(fleet()) });

/** The answer of a command with `--json` that wrote nothing to the standard error. */
export async function json(result: Promise<Result>) {
  const { exit, out, err } = await result;
  expect(err).toBe("");
  return { exit, ...JSON.parse(out) };
}

export function linesIn<L>(path: string): L[] {
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as L);
}
