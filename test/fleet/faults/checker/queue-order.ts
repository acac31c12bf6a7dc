/**
 * The check of the queue's order: a command that an agent sends for a task after the answer `queued` is applied after the queued command, if
 * both are applied. An agent without a spool knows its queued commands only until its process ends. Only commands that give the agent the
 * task do not wait. The check of the commands verifies that each command is applied once or becomes a dead letter.
 */
import type { CallAttempt } from "../agents/history.ts";
import { applicationsOf, type Command, type Evidence, type Violation } from "./evidence.ts";

const NOT_WAITING: ReadonlySet<string> = new Set(["take", "acknowledge"]);

export function checkQueued(
  { attempts, finalState, hasSpools }: Evidence,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const applications = applicationsOf(finalState);
  const positionOf = ({ command_id }: CallAttempt): number | undefined =>
    applications.get(command_id!)?.[0]?.entry.seq;
  // These commands left the queue without an application. A later application is that of a copy.
  const dead = new Set(finalState.dead.map(({ command_id }) => command_id));
  const own = attempts.filter(({ command_id, copy }) => command_id !== undefined && copy === undefined);
  const found: Violation[] = [];
  const caller = ({ agent, call }: CallAttempt) => (hasSpools ? agent : `${agent} ${processOf(call)}`);
  for (const [, calls] of Map.groupBy(own, (attempt) => `${caller(attempt)} ${attempt.task}`)) {
    let last: CallAttempt | undefined;
    const sent = new Set<string>();
    for (const call of calls) {
      // A command that was also sent earlier may have been applied earlier.
      const isRepeated = sent.has(call.command_id!);
      sent.add(call.command_id!);
      const [before, after] = [last && positionOf(last), positionOf(call)];
      if (
        last !== undefined &&
        last.end < call.begin &&
        before !== undefined &&
        after !== undefined &&
        after < before &&
        !isRepeated &&
        !NOT_WAITING.has(call.op) &&
        !bypassedSpool(call, commands)
      ) {
        found.push({
          kind: "queued_out_of_order",
          task: call.task,
          text: "a command was applied before an earlier queued command of its agent",
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

/** The name of a call begins with that of its process. */
const processOf = (call: string): string => call.slice(0, call.lastIndexOf("/"));

/**
 * A spooled command is not sent yet and names no command to wait for: its position in the spool is its order. A copy that a fault sends
 * bypasses the spool, which is impossible for a message of the SDK.
 */
function bypassedSpool(call: CallAttempt, commands: ReadonlyMap<string, Command>): boolean {
  const attempts = commands.get(call.command_id!)?.attempts ?? [];
  return call.outcome === "spooled" && attempts.some(({ copy }) => copy !== undefined);
}
