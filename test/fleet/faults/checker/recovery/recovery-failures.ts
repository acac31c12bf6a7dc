/**
 * Failures: nobody was taken for dead who was heard, or had just written; what was reported had happened; and who lost a task had it. The
 * witness is a listener at the bus itself, and what the agents and their runners reported.
 */
import { POLICY } from "../../environment/policy.ts";
import { kindOf } from "../../workers/kinds.ts";
import type { Beat, Entry, Evidence, Exit, TaskTruth, Violation } from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { isTaking } from "../owners.ts";
import { type RecoveryMove, type RecoveryStory, sayingOf } from "./recovery-history.ts";

/** Clocks of one machine are read at different moments, and a loaded one is slow to look. */
const SLACK_MS = 300;
const SILENCE_MS = POLICY.defaults.recovery.silence_ms;

export function checkFailures(evidence: Evidence, stories: readonly RecoveryStory[]): Violation[] {
  const found: Violation[] = [];
  const beats = Map.groupBy(evidence.beats, ({ task, fence }) => `${task} ${fence}`);
  for (const story of stories) {
    const say = sayingOf(found, story);
    for (const { entry } of story.moves.filter((move) => move.entry.op === "fail")) {
      const { seq, signal, class: failureClass, owner_from: agent, fence } = entry;
      const own = beats.get(`${story.task} ${fence - 1}`) ?? [];
      const problem = PROBLEMS[signal ?? ""]?.({ entry, story, beats: own, evidence });
      const details = { seq, signal, class: failureClass, agent, fence: fence - 1 };
      // Whoever says itself that it cannot go on, for want of a disk, is not healthy any more, also when its report got lost for want of one.
      const gaveUp = evidence.lives.some(
        (life) => life.what === "fails" && life.task === story.task && life.fence === fence - 1,
      );
      const isOwnWord = (signal === "exit_report" || gaveUp) && problem === null;
      if (
        kindOf(story.task) === "healthy" &&
        !isOwnWord &&
        (problem !== null || wasTold(entry, story, evidence))
      ) {
        say("false_recovery", "an agent that nothing was done to lost its task", { ...details, problem });
      } else if (problem !== null) {
        const kind = problem === undefined ? "recovery_unjustified" : problem.kind;
        say(kind, problem?.text ?? "nobody knows such a signal", details);
      }
    }
  }
  return found;
}

interface Failed {
  readonly entry: Entry;
  readonly story: RecoveryStory;
  /** Of the task, under the fence that the agent had. */
  readonly beats: readonly Beat[];
  readonly evidence: Evidence;
}

type Problem = { readonly kind: "false_recovery" | "recovery_unjustified"; readonly text: string };

const unjustified = (text: string): Problem => ({ kind: "recovery_unjustified", text });
const untrue = (text: string): Problem => ({ kind: "false_recovery", text });

/** By signal, what is wrong with a failure; null: nothing. */
const PROBLEMS: Readonly<Record<string, (failed: Failed) => Problem | null>> = {
  lease_lapsed: ({ entry, story, beats, evidence }) => {
    const at = timeOf(entry);
    if (beats.length === 0 && !hasPromised(story.truth, entry, evidence))
      return unjustified("an agent was missed that never said that it lives, nor that it would");
    const isHeard = beats.some(
      ({ sentAt, heardAt }) => sentAt > at - SILENCE_MS + SLACK_MS && heardAt < at - SLACK_MS,
    );
    if (isHeard) return untrue("an agent that was heard counted as dead");
    const wrote = lastWriteUnder(story.truth, entry);
    return wrote !== undefined && timeOf(wrote) > at - SILENCE_MS
      ? untrue("an agent that had just written counted as dead")
      : null;
  },
  step_overdue: ({ entry, beats }) => {
    const at = timeOf(entry);
    const last = beats.findLast(({ heardAt }) => heardAt < at - SLACK_MS);
    const declared = beats.some(({ stepDeadline }) => stepDeadline !== null && stepDeadline <= at);
    if (!declared) return untrue("an agent that had declared no step, or had time, counted as hung");
    return last?.stepDeadline === null ? untrue("an agent whose step had ended counted as hung") : null;
  },
  exit_report: ({ entry, story, evidence }) =>
    reportOf(entry, story, evidence) === undefined
      ? untrue("an agent that reported no failure counted as failed")
      : null,
  handoff_lapsed: ({ entry, story }) => {
    const lapse = story.truth.entries.findLast(({ op, seq }) => op === "lapse" && seq < entry.seq);
    return lapse?.fence === entry.fence - 1 ? null : unjustified("no handoff had lapsed under that fence");
  },
  handoff_rejected: ({ entry, story }) => {
    const rejected = story.truth.entries.findLast(({ op, seq }) => op === "reject" && seq < entry.seq);
    return rejected?.reason === "hash_broken" ? null : unjustified("no handoff had been rejected");
  },
};

function reportOf(
  { owner_from: agent, fence, class: failureClass }: Entry,
  { task }: RecoveryStory,
  { truth }: Pick<Evidence, "truth">,
): Exit | undefined {
  return truth.exits.find(
    (exit) =>
      exit.task === task && exit.agent === agent && exit.fence === fence - 1 && exit.class === failureClass,
  );
}

function lastWriteUnder({ entries }: TaskTruth, failed: Entry): Entry | undefined {
  const own = entries.filter(
    ({ seq, fence, command_id }) => seq < failed.seq && fence === failed.fence - 1 && command_id !== null,
  );
  return own.at(-1);
}

/** Whoever was never told that it got the task does not know it as its own, and says nothing of it. */
function wasTold(failed: Entry, { truth }: RecoveryStory, { attempts }: Evidence): boolean {
  const taken = takingBefore(truth, failed);
  return attempts.some(
    ({ command_id, copy, outcome }) =>
      command_id === taken?.command_id && copy === undefined && outcome === "committed",
  );
}

/** What gave the task to whoever failed. */
function takingBefore({ entries }: TaskTruth, failed: Entry): Entry | undefined {
  return entries.find((entry) => isTaking(entry) && entry.fence === failed.fence - 1);
}

interface SentTaking {
  readonly heartbeats?: boolean;
}

/** Whoever got the task under the fence that is over now said that it would be heard. */
function hasPromised(truth: TaskTruth, failed: Entry, { sent }: Pick<Evidence, "sent">): boolean {
  const body = sent.get(takingBefore(truth, failed)?.command_id ?? "")?.body;
  return body !== undefined && (JSON.parse(body) as SentTaking).heartbeats === true;
}

/** When whoever failed gave its last sign, by the witness; null: it cannot be said. */
export function detectableAt(
  { entry }: Pick<RecoveryMove, "entry">,
  story: RecoveryStory,
  evidence: Pick<Evidence, "beats" | "truth">,
): number | null {
  const fence = entry.fence - 1;
  const beats = evidence.beats.filter((beat) => beat.task === story.task && beat.fence === fence);
  switch (entry.signal) {
    case "lease_lapsed": {
      const last = beats.findLast(({ heardAt }) => heardAt < timeOf(entry));
      const wrote = lastWriteUnder(story.truth, entry);
      const signs = [last?.sentAt ?? 0, wrote === undefined ? 0 : timeOf(wrote)];
      return Math.max(...signs) + SILENCE_MS;
    }
    case "step_overdue":
      return beats.findLast(({ stepDeadline }) => stepDeadline !== null)?.stepDeadline ?? null;
    case "exit_report":
      return reportOf(entry, story, evidence)?.at ?? null;
    default: {
      const cause = story.truth.entries.findLast(
        ({ op, seq }) => (op === "lapse" || op === "reject") && seq < entry.seq,
      );
      return cause === undefined ? null : timeOf(cause);
    }
  }
}
