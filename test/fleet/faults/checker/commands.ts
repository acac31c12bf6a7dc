/**
 * The check of every command against the store: a committed command is stored as it was answered, no command is applied twice, no refused
 * command is applied, every applied command was sent, and no command is open at the end.
 */
import {
  applicationsOf,
  type Command,
  type Evidence,
  type FinalTask,
  type Violation,
  versionName,
} from "./evidence.ts";
import { removedIn } from "./retention/tombstones.ts";

/** The time from a refusal to its dead letter, which may have to wait for the bus. */
const DEAD_LETTER_MS = 15_000;

export function checkCommands(
  { finalState, damages }: Evidence,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const applications = applicationsOf(finalState);
  const dead = new Map(finalState.dead.map(({ command_id, at }) => [command_id, at]));
  const damaged = new Set(damages.map(({ checkpoint_id }) => checkpoint_id));
  const removed = removedOf([...finalState.tasks.values()]);
  const isGone = (id: string | null): boolean => id !== null && (damaged.has(id) || removed.has(id));
  const found: Violation[] = [];
  for (const command of commands.values()) {
    const applied = applications.get(command.id) ?? [];
    const report = (kind: Violation["kind"], text: string, details: Record<string, unknown> = {}): void => {
      found.push({ kind, task: command.task, text, details: { command_id: command.id, ...details } });
    };
    if (applied.length > 1) {
      report("applied_twice", "a command has more than one audit entry", {
        entries: applied.map(({ entry }) => entry.seq),
      });
    }
    checkAnswers(command, report);
    if (command.committed !== undefined) {
      if (applied.length === 0) report("lost", "a command that was answered committed has no audit entry");
    } else if (applied.length > 0) {
      if (isRefused(command)) {
        report("refused_but_applied", "a command was applied although all its answers were refusals", {
          codes: command.attempts.map(({ code }) => code),
        });
      }
    } else if (command.wasQueued && !dead.has(command.id)) {
      report("queued_lost", "a command that was answered queued was neither applied nor dead-lettered");
    }
    // One message of a command may be refused before another one is applied. After the application no message of it is refused.
    const deadAt = dead.get(command.id) ?? 0;
    if (applied.length > 0 && deadAt > Date.parse(applied[0]!.entry.at) + DEAD_LETTER_MS) {
      report("queued_lost", "a command was applied and became a dead letter after that");
    }
    if (!isResolved(command))
      report("unresolved", "the outcome of the command is unknown although it was sent again at the end");
    for (const { task, entry } of applied) {
      const storedHash = finalState.tasks
        .get(task)!
        .hashes.get(versionName(entry.checkpoint_id, entry.version));
      const { committed } = command;
      if (committed === undefined) continue;
      const isEqual =
        task === command.task &&
        entry.checkpoint_id === committed.checkpoint_id &&
        entry.version === committed.version &&
        // The answer to a removal names the removed version.
        (entry.op === "remove" ? entry.old_hash : entry.new_hash) === committed.hash &&
        (committed.fence === null || entry.fence === committed.fence) &&
        (committed.hash === null || storedHash === committed.hash || isGone(entry.checkpoint_id));
      if (!isEqual) {
        report("lost", "the stored version differs from the answer", {
          answered: committed,
          entry: { task, ...entry },
          stored_hash: storedHash ?? null,
        });
      }
    }
  }
  return [...found, ...checkUnsent(applications, commands)];
}

function removedOf(tasks: readonly FinalTask[]): ReadonlySet<string | null> {
  return new Set(tasks.flatMap(({ entries }) => [...removedIn(entries).keys()]));
}

function checkUnsent(
  applications: ReturnType<typeof applicationsOf>,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const unsent = [...applications].filter(([id]) => !commands.has(id));
  return unsent.map(([id, applied]) => ({
    kind: "unasked",
    task: applied[0]!.task,
    text: "the store has a command that no agent sent",
    details: { command_id: id },
  }));
}

type Report = (kind: Violation["kind"], text: string, details?: Record<string, unknown>) => void;

/** Every answer to a command repeats the first one. */
function checkAnswers({ attempts, committed }: Command, report: Report): void {
  if (committed === undefined) return;
  const expected = JSON.stringify(committed);
  const other = attempts.find(
    (one) => one.committed !== undefined && JSON.stringify(one.committed) !== expected,
  );
  const { op, expected_version: expectedVersion } = attempts[0]!;
  const version = (op === "create" ? committed.seq : committed.version) ?? 0;
  if (expectedVersion !== undefined && version !== expectedVersion + 1) {
    report("expectation_broken", "a conditional command was applied to another version than it expected", {
      expected: expectedVersion,
      answered: committed,
    });
  }
  if (other !== undefined) {
    report("answers_differ", "two copies of a command were answered differently", {
      first: committed,
      other: other.committed,
    });
  }
}

function isRefused({ attempts }: Command): boolean {
  return attempts.every(({ outcome }) => outcome === "refused");
}

/** Some copies may be unanswered. It is enough that one message after the repair had a definite answer. */
function isResolved({ attempts, committed, wasQueued }: Command): boolean {
  if (committed !== undefined || wasQueued) return true;
  if (attempts.every(({ outcome }) => outcome !== "unknown")) return true;
  return attempts.some(({ outcome, copy }) => outcome === "refused" && copy === "resolving");
}
