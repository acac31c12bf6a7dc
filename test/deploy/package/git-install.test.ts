// The package as it is installed from the address of a git repository: npm clones it, builds it and installs what was built.

import { execFileSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import { findNode, installFromGit } from "./installation.ts";

const NODE_OLDEST = 20;

test("the package installs from a git URL, and its SDK and its command run under Node 20", (context) => {
  const { folder, unreachable } = installFromGit();
  try {
    context.skip(unreachable !== undefined, "the registry of npm cannot be reached");
    const node = findNode(NODE_OLDEST);
    if (node === undefined) return context.skip(`there is no Node ${NODE_OLDEST} on PATH`);
    const options = { cwd: folder, encoding: "utf8" } as const;
    const program = 'import { connect } from "fleet"; console.log(typeof connect);';
    expect(execFileSync(node, ["--input-type=module", "--eval", program], options)).toBe("function\n");
    const { version } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
    const printed = execFileSync(node, [join(folder, "node_modules/.bin/fleet"), "version"], options);
    expect(printed).toMatch(new RegExp(`^fleet ${version}, node ${NODE_OLDEST}\\.`));
  } finally {
    rmSync(dirname(folder), { recursive: true, force: true });
  }
}, 900_000);
