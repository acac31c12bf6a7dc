// `fleet import langgraph`: the threads of LangGraph's own savers, as FleetSaver stores them. Every thread is read, verified and compared with
// the fleet before the first one is written.

import { type Command, Option } from "commander";
import { ERROR_TABLE, FleetError } from "../../../../shared/protocol/errors.ts";
import type { EntriesOfThread } from "../../../../shared/sdk/langgraph/saved-thread.ts";
import type { ThreadImport, ThreadPresence } from "../../../../shared/sdk/langgraph/thread-import.ts";
import type { RefusedThread, ThreadReport } from "../../rendering/transfer/threads.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import type { ThreadSource } from "./thread-source.ts";

interface Flags {
  readonly sqlite?: string;
  readonly postgres?: string;
  readonly schema: string;
  readonly thread?: readonly string[];
  readonly agentType: string;
  readonly skipExisting?: boolean;
  readonly dryRun?: boolean;
}

export function addThreadImport(parent: Command, action: ActionFactory): void {
  const command = parent
    .command("langgraph")
    .summary("Import the threads of LangGraph's own savers.")
    .description(
      "Import the threads that LangGraph's own SqliteSaver or PostgresSaver has stored, as FleetSaver stores them, so that their graphs continue with it. The source is only read. Everything is verified first. A repeated call continues an interrupted import, and adds what is new in the source.",
    )
    .option("--sqlite <file>", "the database file of a SqliteSaver")
    .addOption(
      new Option(
        "--postgres <url>",
        "the database of a PostgresSaver; better without its password, which PGPASSWORD or a file of passwords gives",
      ).conflicts("sqlite"),
    )
    .option("--schema <name>", "the schema of the tables in Postgres", "public")
    .option("--thread <id...>", "only these threads")
    .option("--agent-type <type>", "the agent type of the tasks", "implementation")
    .option(
      "--skip-existing",
      "leave out threads that differ in this fleet, in place of importing none (exit 5)",
    )
    .option("--dry-run", "verify the source, compare it with the fleet, and change nothing")
    .action(action(importThreads));
  withExamples(command, (fleet) => ({
    "The effect, then the import": `${fleet} import langgraph --sqlite checkpoints.db --dry-run && ${fleet} import langgraph --sqlite checkpoints.db`,
    "One thread, for agents of the type qa": `${fleet} import langgraph --sqlite checkpoints.db --thread order-7 --agent-type qa`,
    "From Postgres": `PGPASSWORD=… ${fleet} import langgraph --postgres postgres://reader@db.example.org/graphs`,
  }));
}

interface Plan {
  readonly presence: ReadonlyMap<string, ThreadPresence>;
  readonly refused: readonly RefusedThread[];
  readonly orphans: number;
}

async function importThreads(session: Session, flags: Flags): Promise<void> {
  const { renderThreads } = await import("../../rendering/transfer/threads.ts");
  const { ThreadImport } = await import("../../../../shared/sdk/langgraph/thread-import.ts");
  const source = await openSource(session, flags);
  try {
    const { deadlineMs } = session.deadline;
    const target = new ThreadImport(await session.client(), { agentType: flags.agentType, deadlineMs });
    const { presence, refused, orphans } = await planOf(session, source, target, flags.thread);
    await source.requireUnchanged();
    const named = (...some: ThreadPresence[]): string[] =>
      [...presence].flatMap(([id, its]) => (some.includes(its) ? [id] : []));
    const taken = named("taken");
    if (taken.length > 0 && flags.skipExisting !== true) {
      throw new FleetError(
        "CONFLICT",
        "these threads differ in this fleet, or other agents own them; nothing was imported",
        {
          details: { threads: taken.slice(0, 20), count: taken.length, next: "--skip-existing" },
        },
      );
    }
    let entries = 0;
    if (flags.dryRun !== true) {
      for (const id of named("none", "part")) entries += await writeThread(session, source, target, id);
    }
    const report: ThreadReport = {
      ...{ source: source.name, imported: named("none"), continued: named("part"), identical: named("all") },
      ...{ skipped: taken, refused, orphans, entries, dry_run: flags.dryRun === true },
    };
    if (refused.length > 0) session.exitCode = ERROR_TABLE.CORRUPT.exit;
    await session.show(report, () => renderThreads(report, session.view));
  } finally {
    await source.close();
  }
}

async function openSource(session: Session, { sqlite, postgres, schema }: Flags): Promise<ThreadSource> {
  if (sqlite !== undefined) return (await import("./sqlite-threads.ts")).openSqliteThreads(sqlite);
  if (postgres === undefined)
    throw new UsageError("no source is named", "Give --sqlite with a file, or --postgres with a URL.");
  const { openPostgresThreads } = await import("./postgres-threads.ts");
  return openPostgresThreads(postgres, schema, session.deadline);
}

async function planOf(
  session: Session,
  source: ThreadSource,
  target: ThreadImport,
  wanted: readonly string[] | undefined,
): Promise<Plan> {
  const { PROGRESS_END } = await import("../../rendering/terminal/progress.ts");
  const { ThreadFault } = await import("../../../../shared/sdk/langgraph/saved-thread.ts");
  const all = await source.threads();
  const missing = wanted?.find((id) => !all.includes(id));
  if (missing !== undefined)
    throw new FleetError("NOT_FOUND", "the source has no such thread", { details: { thread: missing } });
  const presence = new Map<string, ThreadPresence>();
  const refused: RefusedThread[] = [];
  let orphans = 0;
  for (const id of wanted ?? all) {
    session.progress(`${PROGRESS_END}Reading thread ${presence.size + 1}: ${JSON.stringify(id)}`);
    try {
      const read = await entriesIn(source, id);
      orphans += read.orphans;
      // LangGraph knows no thread without a checkpoint.
      if (read.entries.length > 0) presence.set(id, await target.presence(id, read.entries));
    } catch (error) {
      if (!(error instanceof ThreadFault)) throw error;
      refused.push({ thread: id, row: error.row, problem: error.problem });
    }
  }
  session.progress(PROGRESS_END);
  return { presence, refused, orphans };
}

async function entriesIn(source: ThreadSource, id: string): Promise<EntriesOfThread> {
  const { entriesOf } = await import("../../../../shared/sdk/langgraph/saved-thread.ts");
  return entriesOf(await source.thread(id));
}

/** Returns the number of entries that were written. */
async function writeThread(
  session: Session,
  source: ThreadSource,
  target: ThreadImport,
  id: string,
): Promise<number> {
  const { PROGRESS_END } = await import("../../rendering/terminal/progress.ts");
  const { entries } = await entriesIn(source, id);
  try {
    return await target.write(id, entries, (written) =>
      session.progress(
        `${PROGRESS_END}Importing ${JSON.stringify(id)}: entry ${written} of ${entries.length}`,
      ),
    );
  } finally {
    session.progress(PROGRESS_END);
  }
}
