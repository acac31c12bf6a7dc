/**
 * Commands by way of the queue keep their order: what an agent sent for a task after it was told `queued` stands behind that command,
 * if both were applied; only what gives the agent the task waits for nothing. That each was applied once or dead-lettered is checked with the other commands.
 */
import type { Attempt } from "../agents/history.ts";
import { type Command, type Evidence, placesOf, type Violation } from "./evidence.ts";

const GOING_BEHIND_NOTHING: ReadonlySet<string> = new Set(["take", "acknowledge"]);

export function checkQueued(
  { attempts, truth }: Evidence,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const places = placesOf(truth);
  const placeOf = ({ command_id }: Attempt): number | undefined => places.get(command_id!)?.[0]?.entry.seq;
  // Out of the queue as it should be, without having been applied; what applied it later was a copy.
  const dead = new Set(truth.dead.map(({ command_id }) => command_id));
  const own = attempts.filter(({ command_id, copy }) => command_id !== undefined && copy === undefined);
  const found: Violation[] = [];
  for (const [, calls] of Map.groupBy(own, ({ agent, task }) => `${agent} ${task}`)) {
    let last: Attempt | undefined;
    const asked = new Set<string>();
    for (const call of calls) {
      // One that was asked for before, too, may well stand before.
      const isAgain = asked.has(call.command_id!);
      asked.add(call.command_id!);
      const [before, after] = [last && placeOf(last), placeOf(call)];
      if (
        last !== undefined &&
        last.end < call.begin &&
        before !== undefined &&
        after !== undefined &&
        after < before &&
        !isAgain &&
        !GOING_BEHIND_NOTHING.has(call.op) &&
        !wasSentAround(call, commands)
      ) {
        found.push({
          kind: "queued_out_of_order",
          task: call.task,
          text: "a command overtook one that its agent had queued before",
          details: {
            queued: last.command_id,
            overtaking: call.command_id,
            codes: commands.get(call.command_id!)?.attempts.length,
          },
        });
      }
      const waits = call.outcome === "queued" || call.outcome === "spooled";
      if (waits && !dead.has(call.command_id!)) last = call;
    }
  }
  return found;
}

/**
 * A spooled command has not been sent yet, and names none to wait for: its place in the spool is its order. A copy of it that a fault
 * sends on its own goes around the spool, which no message that was really sent can do.
 */
function wasSentAround(call: Attempt, commands: ReadonlyMap<string, Command>): boolean {
  const attempts = commands.get(call.command_id!)?.attempts ?? [];
  return call.outcome === "spooled" && attempts.some(({ copy }) => copy !== undefined);
}
