/**
 * Scripted histories for the tests of the checker. A test writes a history step by step, which fills the store and the stream, and then
 * changes one fact.
 */
import { canonicalText, sha256Hex } from "../../../../shared/integrity/canonical.ts";
import { CHAIN_START, entryHash } from "../../../../shared/integrity/chain.ts";
import type { Alert } from "../../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../../shared/protocol/events.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { RemovedCheckpoint } from "../../../../shared/protocol/retention.ts";
import type { ScrubFinding } from "../../../../shared/protocol/scrub.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import type {
  CallAttempt,
  CommittedFacts,
  DamageLine,
  LifecycleLine,
  SeenVersion,
  SentLine,
} from "../agents/history.ts";
import { POLICY } from "../environment/policy.ts";
import type { DeadLetter, Entry, Evidence, ExitRecord, FinalTask, HeartbeatRecord } from "./evidence.ts";
import { versionName } from "./evidence.ts";

/** All properties of T, writable. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const TYPES: Record<string, FleetEvent["type"]> = {
  create: "CHECKPOINT_CREATED",
  update: "CHECKPOINT_UPDATED",
  take: "TASK_TAKEN",
  release: "TASK_RELEASED",
  finalize: "CHECKPOINT_FINALIZED",
  handoff: "AGENT_HANDOFF",
  validate: "HANDOFF_VALIDATED",
  offer: "HANDOFF_OFFERED",
  acknowledge: "HANDOFF_ACKNOWLEDGED",
  confirm: "HANDOFF_CONFIRMED",
  reject: "HANDOFF_FAILED",
  escalate: "HANDOFF_FAILED",
  cancel_handoff: "HANDOFF_FAILED",
  lapse: "HANDOFF_FAILED",
  block: "TASK_BLOCKED",
  quarantine: "CHECKPOINT_CORRUPTED",
  restore: "CHECKPOINT_RESTORED",
  fail: "AGENT_FAILED",
  recover: "RECOVERY_INITIATED",
  resume: "RECOVERY_COMPLETED",
  settle: "RECOVERY_SETTLED",
  retry: "RECOVERY_REQUESTED",
  remove: "CHECKPOINT_REMOVED",
  retain: "TASK_RETENTION_CHANGED",
  hold: "TASK_RETENTION_CHANGED",
  shred_request: "TASK_SHRED_CHANGED",
  shred_approve: "TASK_SHRED_CHANGED",
  shred_cancel: "TASK_SHRED_CHANGED",
  shred_end: "TASK_SHRED_CHANGED",
};

interface WriteFacts {
  readonly op: "create" | "update" | "finalize" | "take" | "release";
  readonly agent?: string;
  readonly checkpoint?: string;
  readonly fence?: number;
  readonly expected?: number;
}

type AppliedFacts = Pick<CallAttempt, "op" | "agent"> & Partial<Pick<CallAttempt, "command_id">>;

/** The history of one task in a correct fleet; its default name is `t`. Each call takes ten units of time, and the calls do not overlap. */
export class ScriptedHistory {
  readonly attempts: Mutable<CallAttempt>[] = [];
  readonly entries: Mutable<Entry>[] = [];
  readonly events: Mutable<FleetEvent>[] = [];
  readonly dead: DeadLetter[] = [];
  readonly exits: ExitRecord[] = [];
  readonly hashes = new Map<string, string>();
  readonly current: { checkpoint_id: string; version: number }[] = [];
  readonly removed: Mutable<RemovedCheckpoint>[] = [];
  readonly findings: ScrubFinding[] = [];
  readonly handoffs = new Map<string, Mutable<Handoff>>();
  readonly alerts: Alert[] = [];
  readonly sent = new Map<string, SentLine>();
  readonly lifecycle: LifecycleLine[] = [];
  readonly damages: DamageLine[] = [];
  readonly heartbeats: HeartbeatRecord[] = [];
  transitions = 0;
  /** The handoff of the head. */
  openHandoff: string | null = null;
  /** The recovery state of the head; null: no agent of the task has failed, and the task is not blocked. */
  recovery: string | null = null;
  state = "active";
  /** The time of the services' clocks. */
  wallMs = Date.parse("2026-01-01T00:00:00Z");
  fence = 0;
  owner: string | null = null;
  #time = 0;
  #count = 0;
  readonly task: string;

  constructor(task = "t") {
    this.task = task;
  }

  /** A command that is committed and answered. */
  write(facts: WriteFacts): Mutable<CallAttempt> {
    const attempt = this.send(facts);
    attempt.outcome = "committed";
    attempt.committed = this.apply(attempt, facts.checkpoint);
    return attempt;
  }

  /** A command that is refused. */
  refuse(facts: WriteFacts, code: string): Mutable<CallAttempt> {
    const attempt = this.send(facts);
    attempt.outcome = "refused";
    attempt.code = code;
    return attempt;
  }

  /** A command whose outcome is open. */
  send({ op, agent = "a", fence, expected }: WriteFacts): Mutable<CallAttempt> {
    return this.call({
      op,
      agent,
      ...(fence !== undefined && { fence }),
      ...(expected !== undefined && { expected_version: expected }),
    });
  }

  protected call(facts: Pick<CallAttempt, "op" | "agent"> & Partial<CallAttempt>): Mutable<CallAttempt> {
    this.#count += 1;
    return this.#add({
      call: `call-${this.#count}`,
      task: this.task,
      command_id: `command-${this.#count}`,
      ...this.#times(),
      outcome: "unknown",
      ...facts,
    });
  }

  /** Another message of the same command. */
  copy(
    of: CallAttempt,
    ending: Pick<CallAttempt, "outcome" | "code" | "committed">,
    copy: CallAttempt["copy"] = "late",
  ): Mutable<CallAttempt> {
    const { code: _code, committed: _committed, ...call } = of;
    return this.#add({
      ...call,
      ...this.#times(),
      call: `${of.call}-again-${this.attempts.length}`,
      copy,
      ...ending,
    });
  }

  latest(): Mutable<CallAttempt> {
    const id = this.current.at(-1)?.checkpoint_id;
    const entry = this.entries.findLast(({ checkpoint_id }) => id !== undefined && checkpoint_id === id);
    return this.read("latest", entry === undefined ? [] : [seen(entry)]);
  }

  read(op: "latest" | "get" | "history", versions: readonly SeenVersion[]): Mutable<CallAttempt> {
    return this.#add({
      call: `read-${this.attempts.length}`,
      op,
      agent: "r",
      task: this.task,
      ...this.#times(),
      outcome: "read",
      seen: { versions },
    });
  }

  /** The writes of a command's transaction. */
  apply(attempt: AppliedFacts, checkpoint: string | undefined): CommittedFacts {
    const { op, agent } = attempt;
    const id = op === "create" ? attempt.command_id! : (checkpoint ?? null);
    const version =
      id === null ? null : (this.current.find((one) => one.checkpoint_id === id)?.version ?? 0) + 1;
    const before = this.hashes.get(versionName(id, (version ?? 0) - 1)) ?? null;
    const hash = id === null ? null : sha256Hex(`${id}/${version}`);
    if (op === "take") this.fence += 1;
    if (op === "take" || op === "release") this.owner = op === "take" ? agent : null;
    this.transition(op, {
      command_id: attempt.command_id ?? null,
      checkpoint_id: id,
      version,
      old_hash: before,
      new_hash: hash,
      ...((op === "take" || op === "release") && { owner_to: this.owner }),
    });
    if (id !== null && hash !== null && version !== null) {
      this.hashes.set(versionName(id, version), hash);
      const known = this.current.find((one) => one.checkpoint_id === id);
      if (known) known.version = version;
      else this.current.push({ checkpoint_id: id, version });
    }
    const seq = id === null ? null : this.current.findIndex((one) => one.checkpoint_id === id) + 1;
    return {
      checkpoint_id: id,
      version,
      seq,
      hash,
      fence: id === null ? this.fence : null,
      handoff: null,
      position: String(this.entries.length),
    };
  }

  /** The fleet itself finalizes a superseded draft. */
  finalizeSuperseded(checkpoint: string): void {
    this.apply({ op: "finalize", agent: "writer" }, checkpoint);
  }

  /** One transition, with its event. */
  protected transition(op: string, facts: Partial<Entry>, stateTo = this.state): void {
    const stateFrom = this.entries.length === 0 ? null : this.state;
    this.state = stateTo;
    this.entries.push({
      seq: this.entries.length + 1,
      at: new Date(this.wallMs).toISOString(),
      op,
      command_id: null,
      checkpoint_id: null,
      version: null,
      old_hash: null,
      new_hash: null,
      state_from: stateFrom,
      state_to: stateTo,
      fence: this.fence,
      ...facts,
    });
    this.transitions += 1;
    this.events.push({
      subject: this.task,
      sequence: this.entries.length,
      type: TYPES[op]!,
      data: { checkpointId: facts.checkpoint_id ?? null },
    } as never);
  }

  /** The evidence of the history, with a chain over the current entries. */
  evidence(): Evidence {
    let prev = CHAIN_START;
    const records = this.entries.map((entry) => {
      const text = canonicalText({ ...entry, prev });
      prev = entryHash(text);
      return { seq: entry.seq, entry: text };
    });
    const head = {
      state: this.state,
      fence: this.fence,
      owner: this.owner,
      seq: this.current.length + this.removed.length,
      latest_id: this.current.at(-1)?.checkpoint_id ?? null,
      handoff_id: this.openHandoff,
      recovery: this.recovery === null ? null : { state: this.recovery },
      audit_seq: records.length,
      audit_hash: prev,
    } as unknown as Task;
    const damaged = new Set(this.damages.map(({ checkpoint_id }) => checkpoint_id));
    const task: FinalTask = {
      task: this.task,
      head,
      records,
      entries: this.entries,
      current: this.current.filter(({ checkpoint_id }) => !damaged.has(checkpoint_id)),
      record: null,
      removed: this.removed,
      hashes: this.hashes,
    };
    const { transitions, events, handoffs, alerts, dead, exits, findings } = this;
    const finalState = {
      tasks: new Map([[this.task, task]]),
      transitions,
      events,
      handoffs,
      alerts,
      dead,
      exits,
      findings,
    };
    return {
      attempts: [...this.attempts].sort((a, b) => a.begin - b.begin),
      finalState,
      sent: this.sent,
      lifecycle: this.lifecycle,
      damages: this.damages,
      heartbeats: this.heartbeats,
      silenceMs: POLICY.defaults.recovery.silence_ms,
      lossMs: 0,
      hasSpools: true,
    };
  }

  #add(attempt: CallAttempt): Mutable<CallAttempt> {
    this.attempts.push(attempt);
    return attempt as Mutable<CallAttempt>;
  }

  #times(): { begin: number; end: number } {
    this.#time += 20;
    return { begin: this.#time, end: this.#time + 10 };
  }
}

export function seen({ checkpoint_id, version, new_hash, seq }: Entry): SeenVersion {
  return { checkpoint_id: checkpoint_id!, version: version!, hash: new_hash!, entry: seq };
}
