/**
 * The check of the owners: a task has at most one owner at any time, and each fence belongs to one owner. In the audit trail, every fence is
 * granted once and every entry has the last granted fence. In the answers, no two agents received the same fence, and every writer under a
 * fence is the agent that received it.
 */
import { type Command, type Entry, type Evidence, isAnnotation, type Violation } from "./evidence.ts";

/** Whether an entry gives the task an owner, under the next fence. */
export const givesOwnership = ({ op }: Pick<Entry, "op">): boolean => op === "take" || op === "acknowledge";

/** Whether an entry revokes the ownership and raises the fence without a new owner. */
export const revokesOwnership = ({ op }: Pick<Entry, "op">): boolean => op === "fail" || op === "retry";

export function checkOwners({ finalState }: Evidence, commands: ReadonlyMap<string, Command>): Violation[] {
  const found: Violation[] = [];
  for (const { task, entries } of finalState.tasks.values())
    found.push(...checkTrail(task, entries, commands));
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
    const report = (text: string, details: Record<string, unknown>): void => {
      found.push({ kind: "two_owners", task, text, details: { seq, op, fence, owner, ...details } });
    };
    const command =
      command_id === null || isAnnotation(entry) ? undefined : commands.get(command_id)?.attempts[0];
    if (givesOwnership(entry) || revokesOwnership(entry)) fence += 1;
    else if (command?.fence === fence && owner !== null && command.agent !== owner) {
      report("an agent wrote under the fence of another agent", { agent: command.agent });
    }
    if (entry.fence !== fence) {
      report("an entry has another fence than the last granted one", { entry_fence: entry.fence });
    }
    if (givesOwnership(entry) || revokesOwnership(entry) || op === "release") owner = entry.owner_to ?? null;
    if (givesOwnership(entry) && command !== undefined && command.agent !== owner) {
      report("a task was given to another agent than the caller", { agent: command.agent });
    }
  }
  return found;
}

function checkAnswers(commands: ReadonlyMap<string, Command>): Violation[] {
  const granted = [...commands.values()].filter(
    ({ attempts, committed }) => givesOwnership(attempts[0] as Pick<Entry, "op">) && committed?.fence != null,
  );
  const byFence = Map.groupBy(granted, ({ task, committed }) => `${task} ${committed!.fence}`);
  return [...byFence.values()]
    .filter((owners) => owners.length > 1)
    .map((owners) => ({
      kind: "two_owners",
      task: owners[0]!.task,
      text: "two agents received the same fence",
      details: {
        fence: owners[0]!.committed!.fence,
        agents: owners.map(({ attempts }) => attempts[0]!.agent),
      },
    }));
}
