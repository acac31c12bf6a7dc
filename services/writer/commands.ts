/**
 * The writer's commands: one handler for each, from a request, direct or queued, to a command that can be
 * checked and applied. The subject says which agent acts on which task, and the server's permissions guard
 * the subject, so the body is not asked.
 */

import { requestHash } from "../../shared/integrity/request-hash.ts";
import type { CommandAnswer, CommittedAnswer } from "../../shared/protocol/answers.ts";
import { type Actor, COMMAND_SCHEMAS, type CommandBody } from "../../shared/protocol/commands.ts";
import { invalid } from "../../shared/protocol/errors.ts";
import { canPass } from "../../shared/protocol/lasting-refusal.ts";
import type { MissionOp, ResumptionAnswer } from "../../shared/protocol/mission-commands.ts";
import { COMMAND_OPS, type CommandOp } from "../../shared/protocol/operations.ts";
import { type Policies, refusesSecrets } from "../../shared/protocol/policy.ts";
import { type RedactionCounts, ruleLabel } from "../../shared/protocol/redaction-report.ts";
import type { CommandAddress } from "../../shared/protocol/subjects.ts";
import { validate } from "../../shared/protocol/validation.ts";
import { checkNewCheckpoint } from "../../shared/records/checkpoint/create.ts";
import { checkPatch } from "../../shared/records/checkpoint/update.ts";
import { passedOverText } from "../../shared/records/mission/resumption.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Caller } from "../../shared/records/task/command-runner.ts";
import { requireRemembered } from "../../shared/records/task/expiry.ts";
import { checkImportedVersion } from "../../shared/records/transfer/import.ts";
import { checkImportedRecords } from "../../shared/records/transfer/import-records.ts";
import type { Metrics } from "../../shared/runtime/observability/metrics.ts";
import { currentTraceparent } from "../../shared/runtime/observability/tracing.ts";
import { requireAgentType } from "../../shared/service-host/policy-file.ts";
import type { SignatureDesk } from "./esign/signature-desk.ts";
import { requireNoSecrets } from "./secret-refusal.ts";

/** A command whose body matches its schema. */
export interface ValidCommand {
  readonly op: CommandOp;
  readonly actor: Actor;
  readonly id: string;
  /** The id of a command that must be applied before this one. */
  readonly after: string | undefined;
  /** The caller's fence, if the command has one. */
  readonly fence: number | undefined;
  /**
   * The hash of subject and bytes. It tells a retry, which repeats both, from another command under the same
   * id.
   */
  readonly hash: string;
  /** What its sender has removed from it. */
  readonly redactions: RedactionCounts;
  /** Throws the refusals for which no store is needed. */
  check(): void;
  apply(deadlineMs: number): Promise<CommandAnswer>;
  /**
   * Throws a refusal of the command once no earlier attempt at it can commit any more. Resolves with the answer of one that has
   * committed. Any other error is thrown at once.
   */
  settle(refusal: unknown, deadlineMs: number): Promise<CommandAnswer>;
}

/** Throws INVALID, with every field that is wrong. */
export type ParseCommand = (address: CommandAddress, body: unknown, bytes: Uint8Array) => ValidCommand;

interface Handler<Op extends CommandOp> {
  /** The agent types that a command names, by path. Each must be registered. */
  readonly agentTypes?: (command: CommandBody<Op>) => Readonly<Record<string, string | undefined>>;
  readonly check?: (context: { actor: Actor; nowMs: number }, command: CommandBody<Op>) => void;
  readonly apply: (by: Caller, command: CommandBody<Op>) => Promise<CommandAnswer>;
}

type CommandMetrics = Pick<Metrics, "missionsSilentTotal" | "redactedTotal" | "secretsRefusedTotal">;

/** Complete by compilation: a command without a handler is a type error. */
type Handlers = { readonly [Op in CommandOp]: Handler<Op> };

export function isCommandOp(op: string): op is CommandOp {
  return (COMMAND_OPS as readonly string[]).includes(op);
}

/** For the prompt of the coordinator. The mission has resumed: an error of the read must not hide that. */
async function withRecoveryContext(
  { missions }: CheckpointRepository,
  { actor: { tenant } }: Caller,
  answer: ResumptionAnswer,
): Promise<ResumptionAnswer> {
  const { task_id: mission_id, checkpoint_id, kept_sorties, passed_over } = answer;
  try {
    const recorded = await missions.recoveryContext(tenant, { mission_id, checkpoint_id });
    const now = kept_sorties.length === 0 ? recorded : await missions.recoveryContext(tenant, { mission_id });
    if (recorded === null || now === null) return answer;
    const { next_steps, files_modified } = now;
    const found = answer.blockers ?? [];
    const blockers = [...recorded.blockers, ...passed_over.map(passedOverText), ...found];
    return { ...answer, recovery_context: { ...recorded, next_steps, files_modified, blockers } };
  } catch {
    return answer;
  }
}

function handlersOf(
  repository: CheckpointRepository,
  metrics: CommandMetrics,
  desk: Pick<SignatureDesk, "add">,
): Handlers {
  /** The command is committed: an error of the read must not hide that. */
  async function withCheckpoint(
    { actor: { tenant } }: Caller,
    command: { readonly include_checkpoint?: boolean | undefined },
    answer: CommittedAnswer,
  ): Promise<CommittedAnswer> {
    if (command.include_checkpoint !== true) return answer;
    try {
      return { ...answer, checkpoint: await repository.get(tenant, answer.checkpoint_id, answer.version) };
    } catch {
      return answer;
    }
  }

  return {
    create: {
      agentTypes: ({ checkpoint, handoff }) => ({
        "checkpoint.metadata.agent_type": checkpoint.metadata.agent_type,
        "handoff.to_agent_type": handoff?.to_agent_type,
      }),
      check: checkNewCheckpoint,
      apply: async (by, command) => withCheckpoint(by, command, await repository.create(by, command)),
    },
    update: {
      check: (_, command) => void checkPatch(command),
      apply: async (by, command) => withCheckpoint(by, command, await repository.update(by, command)),
    },
    finalize: { apply: (by, command) => repository.finalize(by, command) },
    link: { apply: (by, command) => repository.link(by, command) },
    take: { apply: (by, command) => repository.take(by, command) },
    release: { apply: (by) => repository.release(by) },
    handoff: {
      agentTypes: ({ to_agent_type }) => ({ to_agent_type }),
      apply: (by, command) => repository.initiateHandoff(by, command),
    },
    acknowledge: { apply: (by, command) => repository.acknowledgeHandoff(by, command) },
    recover: {
      agentTypes: ({ to_agent_type }) => ({ to_agent_type }),
      apply: (by, command) => repository.recover(by, command),
    },
    fork: {
      agentTypes: ({ agent_type }) => ({ agent_type }),
      apply: (by, command) => repository.fork(by, command),
    },
    cancel_handoff: { apply: (by, command) => repository.cancelHandoff(by, command) },
    remove: { apply: (by, command) => repository.remove(by, command) },
    retain: { apply: (by, command) => repository.retain(by, command) },
    hold: { apply: (by, command) => repository.erasure.hold(by, command) },
    shred_request: { apply: (by, command) => repository.erasure.request(by, command) },
    shred_approve: { apply: (by, command) => repository.erasure.approve(by, command) },
    shred_cancel: { apply: (by, command) => repository.erasure.cancel(by, command) },
    signature_add: { apply: (by, command) => desk.add(by, command) },
    ...missionHandlers(repository, metrics),
    ...importHandlers(repository),
  };
}

export interface CommandRules {
  readonly agentTypes: ReadonlySet<string>;
  readonly policies: Policies;
  /** Accepts the signatures of people. */
  readonly desk: Pick<SignatureDesk, "add">;
}

export function createCommandParser(
  repository: CheckpointRepository,
  { agentTypes, policies, desk }: CommandRules,
  now: () => number,
  metrics: CommandMetrics,
): ParseCommand {
  const handlers = handlersOf(repository, metrics, desk);

  function parse<Op extends CommandOp>(op: Op, actor: Actor, body: unknown, bytes: Uint8Array): ValidCommand {
    const schema = COMMAND_SCHEMAS[op];
    // Before the command can be queued. The versions of an import have the hashes of their origin, and a signature its token.
    if (refusesSecrets(policies, actor.tenant) && !op.startsWith("import_") && op !== "signature_add")
      requireNoSecrets(body, metrics);
    const command = validate(schema, body) as CommandBody<Op>;
    const handler = handlers[op];
    for (const [path, type] of Object.entries(handler.agentTypes?.(command) ?? {})) {
      requireAgentType(path, type, agentTypes);
    }
    const { command_id: id, fence } = command;
    // A body may have fields that its schema does not name; such an `after` was not validated.
    const after = "after" in schema.shape ? (command.after as string | undefined) : undefined;
    const redactions = "redactions" in schema.shape ? ((command.redactions ?? {}) as RedactionCounts) : {};
    const hash = requestHash({ ...actor, op }, bytes);
    return {
      op,
      actor,
      id,
      after,
      fence,
      hash,
      check() {
        const nowMs = now();
        requireRemembered(id, undefined, nowMs);
        handler.check?.({ actor, nowMs }, command);
      },
      redactions,
      async apply(deadlineMs) {
        const traceparent = currentTraceparent();
        const by = { actor, commandId: id, fence, requestHash: hash, traceparent, deadlineMs };
        const answer = await handler.apply(by, command);
        if (answer.replayed) return answer;
        for (const [rule, count] of Object.entries(redactions))
          metrics.redactedTotal.inc({ rule: ruleLabel(rule) }, count);
        return answer;
      },
      async settle(refusal, deadlineMs) {
        if (!canPass(refusal)) throw refusal;
        const by = { actor, commandId: id, requestHash: hash };
        return repository.applied.settle(by, refusal, deadlineMs);
      },
    };
  }

  return ({ op, ...actor }, body, bytes) => {
    if (!isCommandOp(op)) throw invalid("op", `one of ${COMMAND_OPS.join(", ")}`, op);
    return parse(op, actor, body, bytes);
  };
}

function missionHandlers(
  repository: CheckpointRepository,
  metrics: CommandMetrics,
): Pick<Handlers, MissionOp> {
  const { missions } = repository;
  return {
    mission_start: {
      agentTypes: ({ agent_type }) => ({ agent_type }),
      apply: (by, command) => missions.start(by, command),
    },
    mission_update: { apply: (by, command) => missions.update(by, command) },
    mission_resume: {
      apply: async (by, command) => withRecoveryContext(repository, by, await missions.resume(by, command)),
    },
    mission_checkpoint: {
      apply: async (by, command) => {
        const answer = await missions.checkpoint(by, command);
        if (command.compaction === true && !answer.replayed && answer.mission_status === "in_progress")
          metrics.missionsSilentTotal.inc();
        return answer;
      },
    },
    sortie_add: { apply: (by, command) => missions.addSorties(by, command) },
    sortie_update: { apply: (by, command) => missions.updateSortie(by, command) },
    lock_acquire: { apply: (by, command) => missions.acquireLock(by, command) },
    lock_renew: { apply: (by, command) => missions.renewLock(by, command) },
    lock_release: { apply: (by, command) => missions.releaseLock(by, command) },
    message_send: { apply: (by, command) => missions.sendMessage(by, command) },
    message_ack: { apply: (by, command) => missions.acknowledgeMessage(by, command) },
    message_cancel: { apply: (by, command) => missions.cancelMessage(by, command) },
    mailbox_subscribe: { apply: (by, command) => missions.subscribeMailbox(by, command) },
  };
}

function importHandlers(
  repository: CheckpointRepository,
): Pick<Handlers, "import_begin" | "import_version" | "import_removed" | "import_records" | "import_end"> {
  return {
    import_begin: { apply: (by, command) => repository.beginImport(by, command) },
    import_version: {
      check: (_, command) => void checkImportedVersion(command),
      apply: (by, command) => repository.importVersion(by, command),
    },
    import_removed: { apply: (by, command) => repository.importRemoved(by, command) },
    import_records: {
      check: ({ actor }, command) => void checkImportedRecords(command, actor.task),
      apply: (by, command) => repository.importRecords(by, command),
    },
    import_end: { apply: (by, command) => repository.endImport(by, command) },
  };
}
