// `fleet init`: writes a small project that runs.

import { basename, resolve } from "node:path";
import { Argument, type Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

const KINDS = ["agent", "orchestrator", "runner"] as const;
type Kind = (typeof KINDS)[number];

export function addProjectInit(program: Command, action: ActionFactory): void {
  const command = program
    .command("init")
    .summary("Write a small project: an agent, an orchestrator or a runner.")
    .description(
      "Write a small commented project that runs. Files that exist are never changed: if one is in the way, nothing is written.",
    )
    .addArgument(new Argument("<kind>", "the kind of project").choices(KINDS))
    .argument("[folder]", "the folder of the project, which is made if it is missing", ".")
    .action(action(init));
  withExamples(command, (fleet) => ({
    "An agent with a test, in a folder of its own": `${fleet} init agent my-agent`,
    "A runner that starts a shell script, in this folder": `${fleet} init runner`,
  }));
}

async function init(session: Session, kind: Kind, folder: string): Promise<void> {
  const { writeProject } = await import("./project-files.ts");
  const path = resolve(folder);
  const files = writeProject(kind, path);
  await session.show({ kind, folder: path, files }, () =>
    [
      `Written to ${path}:`,
      ...files.map((file) => `  ${file}`),
      "",
      `Next: \`cd ${folder} && npm install\`. ${basename(path)}/README.md has the other commands.`,
    ].join("\n"),
  );
}
