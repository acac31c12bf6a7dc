/** The completion scripts, in the shells that this machine has. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Shell } from "../../../services/cli/rendering/completion/shell-scripts.ts";
import { callCli } from "./call.ts";

/** Prints what the shell suggests for the words after `fleet`, one per line. $FILE is the script. */
const PROGRAMS: Readonly<Record<Shell, (words: readonly string[]) => string>> = {
  bash: (words) => `source "$FILE"
    COMP_WORDS=(fleet ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}
    _fleet; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // Without a terminal there is no completion system, so its two functions print what they receive.
  zsh: (words) => `compdef() { }
    _files() { print files }
    _describe() { local -a all; all=("\${(@P)2}"); print -l -- "\${(@)\${(@M)all:#$words[CURRENT]*}%%:*}" }
    source "$FILE"
    words=(fleet ${words.map((word) => `'${word}'`).join(" ")}); CURRENT=${words.length + 1}; _fleet`,
  fish: (words) => `source "$FILE"; complete -C "fleet ${words.join(" ")}" | string replace -r '\\t.*' ''`,
};
const hasShell = (shell: Shell): boolean => spawnSync(shell, ["-c", "exit 0"]).status === 0;

describe.each(["bash", "zsh", "fish"] as const)("%s", (shell) => {
  const isThere = hasShell(shell);
  if (!isThere) console.log(`skipped: ${shell} is not installed`);
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "fleet-completion-"));
    const { exit, out } = await callCli(["completion", shell], {});
    expect(exit).toBe(0);
    writeFileSync(join(folder, "script"), out);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function suggested(...words: string[]): string[] {
    const env = { ...process.env, FILE: join(folder, "script"), HOME: folder };
    const { stdout, stderr } = spawnSync(shell, ["-c", PROGRAMS[shell](words)], { env, encoding: "utf8" });
    expect(stderr).toBe("");
    return stdout.split("\n").filter((line) => line !== "");
  }

  test.skipIf(!isThere)("suggests commands, the commands of a group, and options", () => {
    expect(suggested("")).toEqual(expect.arrayContaining(["checkpoint", "handoff", "status", "up"]));
    expect(suggested("handoff", "ta")).toEqual(["take"]);
    expect(suggested("checkpoint", "create", "--ph")).toEqual(["--phase"]);
    // Options and their values stand between the words of a command.
    expect(suggested("--json", "checkpoint", "fin")).toEqual(["finalize"]);
    expect(suggested("task", "list", "--js")).toEqual(["--json"]);
  });
});

test("another shell is refused with the names of those that are known", async () => {
  const { exit, err } = await callCli(["completion", "tcsh"], {});
  expect(exit).toBe(64);
  expect(err).toMatch(/bash, zsh, fish/);
});
