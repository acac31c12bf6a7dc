// The `fleet` command passes arguments, streams and the exit code through, also if it is started by a link.

import { spawnSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { put, scratchFolder, scratchProject } from "./scratch.ts";

const CLI = `const args: string[] = process.argv.slice(2);
process.stdin.on("data", (data) => process.stdout.write(String(data)));
process.stdin.on("end", () => {
  process.stderr.write(args.join(","));
  process.exitCode = 3;
});`;

test("runs the command line program from a link in another folder", () => {
  const root = scratchProject();
  put(join(root, "node_modules", "x"), "");
  put(join(root, "package.json"), '{"type":"module"}');
  put(join(root, "services", "cli", "main.ts"), CLI);
  const link = join(scratchFolder(), "fleet");
  symlinkSync(join(root, "deploy", "local", "fleet.mjs"), link);
  const run = spawnSync(process.execPath, [link, "show", "a b"], { encoding: "utf8", input: "hello" });
  expect(run).toMatchObject({ status: 3, stdout: "hello", stderr: "show,a b" });
});

test("says what to do in a clone without installed dependencies", () => {
  const root = scratchProject();
  const run = spawnSync(process.execPath, [join(root, "deploy/local/fleet.mjs")], { encoding: "utf8" });
  expect(run).toMatchObject({ status: 69, stdout: "", stderr: expect.stringContaining("run `npm start`") });
});
