/**
 * Every command against the store: what was answered `committed` is there as it was answered, nothing is there twice, what was
 * refused is not there, what is there was asked for, and by the end nothing is left open.
 */
import { type Command, type Evidence, placesOf, type Violation, versionName } from "./evidence.ts";

/** From when a command is refused until its letter is there: the bus may have to come back first. */
const BURIAL_MS = 15_000;

export function checkCommands(
  { truth, damages }: Evidence,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const places = placesOf(truth);
  const dead = new Map(truth.dead.map(({ command_id, at }) => [command_id, at]));
  const damaged = new Set(damages.map(({ checkpoint_id }) => checkpoint_id));
  const found: Violation[] = [];
  for (const command of commands.values()) {
    const at = places.get(command.id) ?? [];
    const say = (kind: Violation["kind"], text: string, details: Record<string, unknown> = {}): void => {
      found.push({ kind, task: command.task, text, details: { command_id: command.id, ...details } });
    };
    if (at.length > 1) {
      say("applied_twice", "a command has more than one audit entry", {
        entries: at.map(({ entry }) => entry.seq),
      });
    }
    checkAnswers(command, say);
    if (command.committed !== undefined) {
      if (at.length === 0) say("lost", "a command that was answered committed has no audit entry");
    } else if (at.length > 0) {
      if (isRefused(command)) {
        say("refused_but_applied", "a command whose every answer was a refusal was applied", {
          codes: command.attempts.map(({ code }) => code),
        });
      }
    } else if (command.wasQueued && !dead.has(command.id)) {
      say("queued_lost", "a command that was answered queued was neither applied nor dead-lettered");
    }
    // A command that went two ways, or whose message came twice, may be refused by one and then be applied by the other; what was applied
    // is known, and no message of it is ever refused.
    const diedAt = dead.get(command.id) ?? 0;
    if (at.length > 0 && diedAt > Date.parse(at[0]!.entry.at) + BURIAL_MS) {
      say("queued_lost", "a command was applied and became a dead letter after that");
    }
    if (!isResolved(command))
      say("unresolved", "asked again at the end, the command still has no definite answer");
    for (const { task, entry } of at) {
      const there = truth.tasks.get(task)!.hashes.get(versionName(entry.checkpoint_id, entry.version));
      const { committed } = command;
      if (committed === undefined) continue;
      const isAsAnswered =
        task === command.task &&
        entry.checkpoint_id === committed.checkpoint_id &&
        entry.version === committed.version &&
        entry.new_hash === committed.hash &&
        (committed.fence === null || entry.fence === committed.fence) &&
        (committed.hash === null || there === committed.hash || damaged.has(entry.checkpoint_id ?? ""));
      if (!isAsAnswered) {
        say("lost", "what is stored is not what was answered", {
          answered: committed,
          entry: { task, ...entry },
          stored_hash: there ?? null,
        });
      }
    }
  }
  return [...found, ...checkUnasked(places, commands)];
}

function checkUnasked(
  places: ReturnType<typeof placesOf>,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const unasked = [...places].filter(([id]) => !commands.has(id));
  return unasked.map(([id, at]) => ({
    kind: "unasked",
    task: at[0]!.task,
    text: "the store holds a command that nobody sent",
    details: { command_id: id },
  }));
}

type Say = (kind: Violation["kind"], text: string, details?: Record<string, unknown>) => void;

/** However often a command is sent, the answer is the first one again. */
function checkAnswers({ attempts, committed }: Command, say: Say): void {
  if (committed === undefined) return;
  const expected = JSON.stringify(committed);
  const other = attempts.find(
    (one) => one.committed !== undefined && JSON.stringify(one.committed) !== expected,
  );
  const { op, expected_version: wanted } = attempts[0]!;
  const before = (op === "create" ? committed.seq : committed.version) ?? 0;
  if (wanted !== undefined && before !== wanted + 1) {
    say("expectation_broken", "a conditional command was applied to another version than it expected", {
      expected: wanted,
      answered: committed,
    });
  }
  if (other !== undefined) {
    say("answers_differ", "two copies of a command were answered differently", {
      first: committed,
      other: other.committed,
    });
  }
}

function isRefused({ attempts }: Command): boolean {
  return attempts.every(({ outcome }) => outcome === "refused");
}

/** Of copies, some may have gone unanswered; it is enough that somebody got a definite answer after all was healed. */
function isResolved({ attempts, committed, wasQueued }: Command): boolean {
  if (committed !== undefined || wasQueued) return true;
  const last = attempts.filter(({ outcome }) => outcome === "unknown");
  if (last.length === 0) return true;
  return attempts.some(({ outcome, copy }) => outcome === "refused" && copy === "resolving");
}
