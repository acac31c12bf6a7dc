/**
 * The checks of the failures: no agent failed that had sent a heartbeat or a checkpoint in time, every report has a cause, and every failed
 * agent was the owner. The evidence are the heartbeats recorded at the bus, and the reports of the agents and their runners.
 */
import { kindOf } from "../../workers/task-kinds.ts";
import {
  type Entry,
  type Evidence,
  type ExitRecord,
  type FinalTask,
  type HeartbeatRecord,
  OF_OPERATORS,
  type Violation,
} from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { givesOwnership } from "../owners.ts";
import { type RecoveryHistory, type RecoveryMove, recoveryReporter } from "./recovery-history.ts";

/** Tolerance for clocks that are read at different times, and for the delays of a loaded machine. */
const SLACK_MS = 300;

export function checkFailures(evidence: Evidence, histories: readonly RecoveryHistory[]): Violation[] {
  const found: Violation[] = [];
  const heartbeats = Map.groupBy(evidence.heartbeats, ({ task, fence }) => `${task} ${fence}`);
  for (const history of histories) {
    const report = recoveryReporter(found, history);
    for (const { entry } of history.moves.filter((move) => move.entry.op === "fail")) {
      const { seq, signal, class: failureClass, owner_from: agent, fence } = entry;
      const own = heartbeats.get(`${history.task} ${fence - 1}`) ?? [];
      const problem = PROBLEMS[signal ?? ""]?.({ entry, history, heartbeats: own, evidence });
      const details = { seq, signal, class: failureClass, agent, fence: fence - 1 };
      // An agent that gives up, for example because its disk is full, is not healthy, even if the report was lost for the same reason.
      const gaveUp = evidence.lifecycle.some(
        (line) => line.what === "fails" && line.task === history.task && line.fence === fence - 1,
      );
      const isOwnReport = (signal === "exit_report" || gaveUp) && problem === null;
      if (
        kindOf(history.task) === "healthy" &&
        !isOwnReport &&
        (problem !== null || wasAnswered(entry, history, evidence))
      ) {
        report("false_recovery", "a healthy agent lost its task", { ...details, problem });
      } else if (problem !== null) {
        const kind = problem === undefined ? "recovery_unjustified" : problem.kind;
        report(kind, problem?.text ?? "the signal is unknown", details);
      }
    }
  }
  return found;
}

interface FailureContext {
  readonly entry: Entry;
  readonly history: RecoveryHistory;
  /** The heartbeats for the task under the agent's fence. */
  readonly heartbeats: readonly HeartbeatRecord[];
  readonly evidence: Evidence;
}

type Problem = { readonly kind: "false_recovery" | "recovery_unjustified"; readonly text: string };

const unjustified = (text: string): Problem => ({ kind: "recovery_unjustified", text });
const falseRecovery = (text: string): Problem => ({ kind: "false_recovery", text });

/** Returns the reason why a failure is not justified, or null, by signal. */
const PROBLEMS: Readonly<Record<string, (failed: FailureContext) => Problem | null>> = {
  lease_lapsed: ({ entry, history, heartbeats, evidence }) => {
    const at = timeOf(entry);
    if (heartbeats.length === 0 && !announcedHeartbeats(history.finalTask, entry, evidence))
      return unjustified("an agent failed by silence that had neither sent nor announced a heartbeat");
    const since = at - evidence.silenceMs + evidence.lossMs + SLACK_MS;
    const isAlive = heartbeats.some(({ sentAt, receivedAt }) => sentAt > since && receivedAt < at - SLACK_MS);
    if (isAlive) return falseRecovery("an agent failed by silence that had sent a heartbeat");
    const wrote = lastWriteUnder(history.finalTask, entry);
    return wrote !== undefined && timeOf(wrote) > at - evidence.silenceMs
      ? falseRecovery("an agent failed by silence that had written a checkpoint")
      : null;
  },
  step_overdue: ({ entry, heartbeats }) => {
    const at = timeOf(entry);
    const last = heartbeats.findLast(({ receivedAt }) => receivedAt < at - SLACK_MS);
    const declared = heartbeats.some(({ stepDeadline }) => stepDeadline !== null && stepDeadline <= at);
    if (!declared)
      return falseRecovery(
        "an agent failed by an overdue step that had declared none, or before its deadline",
      );
    return last?.stepDeadline === null
      ? falseRecovery("an agent failed by an overdue step that had ended")
      : null;
  },
  exit_report: ({ entry, history, evidence }) =>
    reportOf(entry, history, evidence) === undefined
      ? falseRecovery("an agent failed by a report that it did not send")
      : null,
  handoff_lapsed: ({ entry, history }) => {
    const lapse = history.finalTask.entries.findLast(({ op, seq }) => op === "lapse" && seq < entry.seq);
    return lapse?.fence === entry.fence - 1 ? null : unjustified("no handoff had lapsed under that fence");
  },
  handoff_rejected: ({ entry, history }) => {
    const rejected = history.finalTask.entries.findLast(({ op, seq }) => op === "reject" && seq < entry.seq);
    return rejected?.reason === "hash_broken" ? null : unjustified("no handoff had been rejected");
  },
};

function reportOf(
  { owner_from: agent, fence, class: failureClass }: Entry,
  { task }: RecoveryHistory,
  { finalState }: Pick<Evidence, "finalState">,
): ExitRecord | undefined {
  return finalState.exits.find(
    (exit) =>
      exit.task === task && exit.agent === agent && exit.fence === fence - 1 && exit.class === failureClass,
  );
}

/** A refusal is of a superseded agent's command, and no sign of life of the owner. Nor is a command of an operator. */
function lastWriteUnder({ entries }: FinalTask, failed: Entry): Entry | undefined {
  const own = entries.filter(
    ({ op, seq, fence, command_id }) =>
      op !== "refuse" &&
      !OF_OPERATORS.has(op) &&
      seq < failed.seq &&
      fence === failed.fence - 1 &&
      command_id !== null,
  );
  return own.at(-1);
}

/** Whether the failed agent received the answer to its take. Without the answer it does not know the task and sends no heartbeats for it. */
function wasAnswered(failed: Entry, { finalTask }: RecoveryHistory, { attempts }: Evidence): boolean {
  const taken = takingBefore(finalTask, failed);
  return attempts.some(
    ({ command_id, copy, outcome }) =>
      command_id === taken?.command_id && copy === undefined && outcome === "committed",
  );
}

/** The entry that gave the task to the failed agent. */
function takingBefore({ entries }: FinalTask, failed: Entry): Entry | undefined {
  return entries.find((entry) => givesOwnership(entry) && entry.fence === failed.fence - 1);
}

interface SentTaking {
  readonly heartbeats?: boolean;
}

/** Whether the failed agent announced heartbeats when it took the task. */
function announcedHeartbeats(finalTask: FinalTask, failed: Entry, { sent }: Pick<Evidence, "sent">): boolean {
  const body = sent.get(takingBefore(finalTask, failed)?.command_id ?? "")?.body;
  return body !== undefined && (JSON.parse(body) as SentTaking).heartbeats === true;
}

/** The time from which the failure was detectable, by the recorded heartbeats; null: unknown. */
export function detectableAt(
  { entry }: Pick<RecoveryMove, "entry">,
  history: RecoveryHistory,
  evidence: Pick<Evidence, "heartbeats" | "finalState" | "silenceMs">,
): number | null {
  const fence = entry.fence - 1;
  const heartbeats = evidence.heartbeats.filter((one) => one.task === history.task && one.fence === fence);
  switch (entry.signal) {
    case "lease_lapsed": {
      const last = heartbeats.findLast(({ receivedAt }) => receivedAt < timeOf(entry));
      const wrote = lastWriteUnder(history.finalTask, entry);
      const signs = [last?.sentAt ?? 0, wrote === undefined ? 0 : timeOf(wrote)];
      return Math.max(...signs) + evidence.silenceMs;
    }
    case "step_overdue":
      return heartbeats.findLast(({ stepDeadline }) => stepDeadline !== null)?.stepDeadline ?? null;
    case "exit_report":
      return reportOf(entry, history, evidence)?.at ?? null;
    default: {
      const cause = history.finalTask.entries.findLast(
        ({ op, seq }) => (op === "lapse" || op === "reject") && seq < entry.seq,
      );
      return cause === undefined ? null : timeOf(cause);
    }
  }
}
