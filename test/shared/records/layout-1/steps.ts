/** The steps of agents, operators, coordinators and watchdogs on any task of a store. */
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { CommandOp } from "../../../../shared/protocol/operations.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import type { Sighting } from "../../../../shared/records/recovery/observations.ts";
import type { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { offering } from "../../../harness/records/handoffs.ts";
import { input, send } from "../../../harness/records/records.ts";
import { items, sightingOf } from "../../../harness/records/recoveries.ts";
import { DAMAGED, type StoreCopy } from "./fixture.ts";

interface Situation {
  readonly copy: StoreCopy;
  readonly repository: CheckpointRepository;
  readonly tenant: string;
  readonly task: string;
  readonly head: Task;
  readonly open: Handoff | null;
}

type Step = (at: Situation) => Promise<unknown>;
type StepName = keyof typeof STEPS;

const TYPE = "qa";

function command(
  { copy, repository, tenant, task, head }: Situation,
  op: CommandOp,
  body: Record<string, unknown>,
  { agent = head.owner ?? "ann", fenced = true } = {},
): Promise<unknown> {
  const fence = fenced && head.owner !== null ? { fence: head.fence } : {};
  return send(repository, op, body, { tenant, task, agent, commandId: copy.id(), ...fence });
}

function write(
  at: Situation,
  phase: "implementing" | "handoff" | "complete",
  completed = 9,
): Promise<unknown> {
  const checkpoint = input({ phase, completed_items: items(completed), pending_items: [] });
  checkpoint.metadata.agent_type = TYPE;
  return command(at, "create", {
    checkpoint,
    ...(phase === "handoff" && { handoff: { to_agent_type: TYPE } }),
  });
}

function fail({ repository, tenant, task, head }: Situation, changes: Partial<Sighting>): Promise<unknown> {
  const sighting = sightingOf(head, { agent_type: TYPE, ...changes });
  return repository.recoveryActions.noteFailure({ tenant, task }, sighting);
}

async function attempt({ copy, repository, tenant, task, head: { recovery } }: Situation): Promise<unknown> {
  if (recovery?.state !== "waiting" || recovery.due_at === null) return false;
  const { rung, avoid_id, choice, due_at: dueAt } = recovery;
  copy.now = Math.max(copy.now, Date.parse(dueAt));
  const place = { tenant, task };
  const before = rung === "previous" ? avoid_id : null;
  const search = await repository.recoveryActions.findPoint(place, {
    checkpointId: choice?.checkpoint_id ?? null,
    before,
  });
  if (!search.found) {
    return repository.recoveryActions.block(place, { dueAt, reason: search.reason, details: search.details });
  }
  const { checkpoint_id: checkpointId } = search.checkpoint.metadata;
  return repository.recoveryActions.attempt(place, { dueAt, handoffId: copy.id(), checkpointId });
}

function ofLatest(op: "update" | "finalize", body: Record<string, unknown>): Step {
  return async (at) =>
    at.head.latest_id !== null && command(at, op, { checkpoint_id: at.head.latest_id, ...body });
}

function ofHandoff(step: (at: Situation, open: Handoff) => Promise<unknown>): Step {
  return async (at) => at.open !== null && step(at, at.open);
}

const offer = ofHandoff(({ copy, repository, tenant }, open) => {
  expireOffer(copy, open);
  const choice = { ...offering(open), toAgentType: TYPE };
  return repository.handoffActions.offerHandoff(tenant, open.handoff_id, choice);
});

/** An offer is repeated or escalated only after its deadline. */
function expireOffer(copy: StoreCopy, { state, deadline }: Handoff): void {
  if (state === "offered") copy.now = Math.max(copy.now, Date.parse(deadline ?? ""));
}

const accept = ofHandoff((at, { handoff_id, checkpoint_id, to_agent_type: agent_type, offer_digest }) =>
  command(
    at,
    "acknowledge",
    { handoff_id, checkpoint_id, agent_type, offer_digest, heartbeats: true },
    { agent: `taker-${at.head.fence + 1}`, fenced: false },
  ),
);

const STEPS = {
  write: (at) => write(at, "implementing"),
  words: (at) => write(at, "implementing", 0),
  hand: (at) => write(at, "handoff", 0),
  take: (at) => command(at, "take", { heartbeats: true }, { agent: "ann", fenced: false }),
  takeback: (at) => command(at, "take", {}, { agent: "eve", fenced: false }),
  release: (at) => command(at, "release", {}),
  handoff: (at) => command(at, "handoff", { to_agent_type: TYPE }),
  offer,
  accept,
  reject: ofHandoff(({ repository, tenant }, { handoff_id: id }) =>
    repository.handoffActions.rejectHandoff(tenant, id, { reason: "hash_broken" }),
  ),
  escalate: ofHandoff(({ copy, repository, tenant }, open) => {
    expireOffer(copy, open);
    return repository.handoffActions.escalateHandoff(tenant, open.handoff_id, {
      attempt: open.attempt,
      reason: "no_agent",
      toAgentType: TYPE,
    });
  }),
  lapse: ofHandoff(({ copy, repository, tenant }, { handoff_id: id, deadline }) => {
    copy.now = Math.max(copy.now, Date.parse(deadline ?? "") || 0);
    return repository.handoffActions.lapseHandoff(tenant, id);
  }),
  cancel: (at) => command(at, "cancel_handoff", {}),
  update: ofLatest("update", { patch: { execution_state: { current_focus: "the parser" } } }),
  succeed: ofLatest("finalize", { status: "succeeded" }),
  fail_task: ofLatest("finalize", { status: "failed" }),
  crash: (at) => fail(at, { class: "crash", signal: "exit_report" }),
  silent: (at) => {
    at.copy.now += 1_000;
    return fail(at, { class: "crash", signal: "lease_lapsed" });
  },
  unrecoverable: (at) => fail(at, { class: "unrecoverable", signal: "exit_report" }),
  rejected: (at) => fail(at, { class: "corrupt_state", signal: "handoff_rejected", agent_id: null }),
  unwritten: (at) => fail(at, { class: "not_started", signal: "handoff_lapsed" }),
  attempt,
  probe: async ({ copy, repository, tenant, task, head: { recovery } }) => {
    if (recovery?.state !== "blocked" || recovery.due_at === null) return false;
    copy.now = Math.max(copy.now, Date.parse(recovery.due_at));
    return repository.recoveryActions.probe({ tenant, task }, { dueAt: recovery.due_at });
  },
  recover: (at) => command(at, "recover", { force: true }, { agent: "eve", fenced: false }),
  recover_reset: (at) =>
    command(at, "recover", { force: true, reset: true }, { agent: "eve", fenced: false }),
  complete: (at) => write(at, "complete"),
} as const satisfies Record<string, Step>;

/** The steps that the task's situation allows, and those that may come at any time. */
function stepsOf({ owner, handoff_id, recovery }: Task): readonly StepName[] {
  const names: StepName[] = ["write", "take", "recover", "hand", "takeback", "handoff", "words", "update"];
  names.push("succeed", "recover_reset", "fail_task", "complete");
  if (handoff_id !== null) names.push("offer", "accept", "reject", "escalate", "lapse", "cancel");
  if (owner !== null) names.push("release", "crash", "silent", "unrecoverable", "unwritten");
  if (recovery?.state === "waiting") names.push("attempt");
  if (recovery?.state === "attempted") names.push("rejected", "unwritten");
  if (recovery?.state === "blocked") names.push("probe", "rejected");
  return names;
}

/** Refusals that a client can be answered. */
const REFUSALS: ReadonlySet<string> = new Set(["INVALID", "CONFLICT", "FENCED", "NOT_FOUND", "FINALIZED"]);

/** Whether a step is refused as any step on a damaged checkpoint may be. */
const isRefusal = (error: unknown, isDamaged: boolean): boolean =>
  error instanceof FleetError && (REFUSALS.has(error.code) || (isDamaged && error.code === "CORRUPT"));

/** Takes the step with this number, counted over again, of those that the task's situation allows. */
export async function takeAnyStep(copy: StoreCopy, tenant: string, task: string, n: number): Promise<void> {
  const names = stepsOf(await copy.repository.task(tenant, task));
  await takeStep(copy, tenant, task, names[n % names.length] ?? "write");
}

/** From any situation: an operator takes the task and completes it. */
export async function complete(copy: StoreCopy, tenant: string, task: string): Promise<Task> {
  for (const step of ["cancel", "takeback", "complete", "succeed"] as const) {
    await takeStep(copy, tenant, task, step);
  }
  return copy.repository.task(tenant, task);
}

/** Takes a step, which the task's state may refuse. */
async function takeStep(copy: StoreCopy, tenant: string, task: string, step: StepName): Promise<void> {
  const { repository } = copy;
  copy.now += 250;
  const head = await repository.task(tenant, task);
  const { handoff_id: id } = head;
  const open = id === null ? null : await repository.handoff(tenant, { handoff_id: id });
  try {
    await STEPS[step]({ copy, repository, tenant, task, head, open });
  } catch (error) {
    if (!isRefusal(error, DAMAGED.has(task))) throw error;
  }
}
