/**
 * Owners: at any time a task has at most one, and each fence belongs to one. By the trail, a fence is given once and every entry is made
 * under the one that was given last; by the answers, nobody was told a fence that somebody else was told, too; and whoever wrote under
 * a fence is who was given it.
 */
import { type Command, type Entry, type Evidence, isRemark, type Violation } from "./evidence.ts";

/** What gives a task to somebody, under the next fence. */
export const isTaking = ({ op }: Pick<Entry, "op">): boolean => op === "take" || op === "acknowledge";

/** What takes a task from whoever has it, and raises its fence, without giving it to anybody. */
export const isDeposing = ({ op }: Pick<Entry, "op">): boolean => op === "fail" || op === "retry";

export function checkOwners({ truth }: Evidence, commands: ReadonlyMap<string, Command>): Violation[] {
  const found: Violation[] = [];
  for (const { task, entries } of truth.tasks.values()) found.push(...checkTrail(task, entries, commands));
  found.push(...checkAnswers(commands));
  return found;
}

function checkTrail(
  task: string,
  entries: readonly Entry[],
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const found: Violation[] = [];
  let fence = 0;
  let owner: string | null = null;
  for (const entry of entries) {
    const { seq, op, command_id } = entry;
    const say = (text: string, details: Record<string, unknown>): void => {
      found.push({ kind: "two_owners", task, text, details: { seq, op, fence, owner, ...details } });
    };
    const command =
      command_id === null || isRemark(entry) ? undefined : commands.get(command_id)?.attempts[0];
    if (isTaking(entry) || isDeposing(entry)) fence += 1;
    else if (command?.fence === fence && owner !== null && command.agent !== owner) {
      say("somebody wrote under a fence that was given to another", { agent: command.agent });
    }
    if (entry.fence !== fence) {
      say("an entry was made under another fence than the one given last", { made_under: entry.fence });
    }
    if (isTaking(entry) || isDeposing(entry) || op === "release") owner = entry.owner_to ?? null;
    if (isTaking(entry) && command !== undefined && command.agent !== owner) {
      say("a task was given to another than who asked for it", { agent: command.agent });
    }
  }
  return found;
}

function checkAnswers(commands: ReadonlyMap<string, Command>): Violation[] {
  const told = [...commands.values()].filter(
    ({ attempts, committed }) => isTaking(attempts[0] as Pick<Entry, "op">) && committed?.fence != null,
  );
  const byFence = Map.groupBy(told, ({ task, committed }) => `${task} ${committed!.fence}`);
  return [...byFence.values()]
    .filter((owners) => owners.length > 1)
    .map((owners) => ({
      kind: "two_owners",
      task: owners[0]!.task,
      text: "two agents were told that they own the task under the same fence",
      details: {
        fence: owners[0]!.committed!.fence,
        agents: owners.map(({ attempts }) => attempts[0]!.agent),
      },
    }));
}
