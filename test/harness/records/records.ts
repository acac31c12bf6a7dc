/** A repository over a new, real store for tests, and the commands that tests send to it. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { canonicalText, sha256Hex } from "../../../shared/integrity/canonical.ts";
import { statementFrom } from "../../../shared/integrity/esign/statement.ts";
import type { RandomFill } from "../../../shared/integrity/seal.ts";
import type { CommittedAnswer } from "../../../shared/protocol/answers.ts";
import type { CheckpointInput, FinalStatus } from "../../../shared/protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../../shared/protocol/checkpoint-pages.ts";
import { COMMAND_SCHEMAS } from "../../../shared/protocol/commands.ts";
import { ESIGN_PAYLOAD_TYPE, type SignatureAnswer } from "../../../shared/protocol/esign.ts";
import type { CommandOp } from "../../../shared/protocol/operations.ts";
import { DEFAULT_POLICIES, type Policies } from "../../../shared/protocol/policy.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import type { VerifiedEsignature } from "../../../shared/records/esign/sign.ts";
import { type Format, openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Caller } from "../../../shared/records/task/command-runner.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import {
  eraseEverything,
  type FoundationdbServer,
  missingFoundationdb,
  startFoundationdb,
} from "../stores/foundationdb.ts";

export type Engine = Store["name"];
const missing = await missingFoundationdb();
/** The engines that can run on this machine. */
export const ENGINES: readonly Engine[] = ["memory", "lmdb", ...(missing ? [] : ["foundationdb" as const])];

/** The operator of the default tenant. */
export const OPERATOR = { tenant: "default", caller: "human=olga" } as const;

export interface TestRecords {
  /** The folder of the store. */
  readonly path: string;
  readonly store: Store;
  readonly format: Format;
  readonly repository: CheckpointRepository;
  readonly corrupt: CorruptCheckpoint[];
  close(): Promise<void>;
}

export async function openTestRecords(
  engine: Engine,
  now: () => number = Date.now,
  policies: Policies = DEFAULT_POLICIES,
  randomFill?: RandomFill,
): Promise<TestRecords> {
  const folder = mkdtempSync(join(tmpdir(), "fleet-records-"));
  const store = await openEmpty(engine, folder);
  const format = await openFormat(store);
  const corrupt: CorruptCheckpoint[] = [];
  const repository = new CheckpointRepository({
    store,
    format,
    finder: "test",
    now,
    policies,
    ...(randomFill && { randomFill }),
    onCorrupt: (_task, found) => corrupt.push(found),
  });
  return {
    path: folder,
    store,
    format,
    repository,
    corrupt,
    async close() {
      await store.close({ drainMs: 5_000 });
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** One server for all stores of a test file, emptied for each of them. It ends with the process. */
let server: Promise<FoundationdbServer> | undefined;

async function openEmpty(engine: Engine, folder: string): Promise<Store> {
  if (engine === "memory") return await openStore("memory:");
  if (engine === "lmdb") return await openStore(`lmdb:${folder}/store`);
  server ??= startFoundationdb();
  const store = await openStore(`fdb:${(await server).clusterFile}`);
  await eraseEverything(store);
  return store;
}

export interface SendOptions {
  tenant?: string;
  agent?: string;
  task?: string;
  commandId?: string;
  fence?: number;
}

/** The methods of the repository whose name differs from the command's. */
const METHODS = {
  handoff: "initiateHandoff",
  acknowledge: "acknowledgeHandoff",
  cancel_handoff: "cancelHandoff",
  import_begin: "beginImport",
  import_version: "importVersion",
  import_removed: "importRemoved",
  import_records: "importRecords",
  import_end: "endImport",
} as const;
type Methods = typeof METHODS;

const MISSION_METHODS = {
  mission_start: "start",
  mission_update: "update",
  mission_checkpoint: "checkpoint",
  mission_resume: "resume",
  sortie_add: "addSorties",
  sortie_update: "updateSortie",
  lock_acquire: "acquireLock",
  lock_renew: "renewLock",
  lock_release: "releaseLock",
  message_send: "sendMessage",
  message_ack: "acknowledgeMessage",
  message_cancel: "cancelMessage",
  mailbox_subscribe: "subscribeMailbox",
} as const satisfies Partial<Record<CommandOp, keyof CheckpointRepository["missions"]>>;
type MissionMethods = typeof MISSION_METHODS;

const ERASURE_METHODS = {
  hold: "hold",
  shred_request: "request",
  shred_approve: "approve",
  shred_cancel: "cancel",
} as const satisfies Partial<Record<CommandOp, keyof CheckpointRepository["erasure"]>>;
type ErasureMethods = typeof ERASURE_METHODS;

type MethodOf<Op extends CommandOp> = Op extends keyof Methods
  ? Methods[Op]
  : Exclude<Op, keyof Methods | keyof MissionMethods | keyof ErasureMethods | "signature_add">;
type AnswerOf<Op extends CommandOp> = Op extends "signature_add"
  ? SignatureAnswer
  : Op extends keyof MissionMethods
    ? Awaited<ReturnType<CheckpointRepository["missions"][MissionMethods[Op]]>>
    : Op extends keyof ErasureMethods
      ? Awaited<ReturnType<CheckpointRepository["erasure"][ErasureMethods[Op]]>>
      : Awaited<ReturnType<CheckpointRepository[MethodOf<Op>]>>;

/** The writer verifies the token before. */
function verifiedIn(body: Record<string, unknown>): VerifiedEsignature {
  const { payload, proof } = body as Pick<VerifiedEsignature["signed"], "payload" | "proof">;
  const statement = statementFrom(Buffer.from(payload, "base64"));
  if (statement === null) throw new TypeError("the payload is no statement");
  return { statement, signed: { payload_type: ESIGN_PAYLOAD_TYPE, payload, proof } };
}

/** Validates a command and passes it on with the hash of its content, as the writer does. */
export async function send<Op extends CommandOp>(
  repository: CheckpointRepository,
  op: Op,
  body: Record<string, unknown>,
  by: SendOptions = {},
): Promise<AnswerOf<Op>> {
  const { tenant = "default", agent = "agent-1", task = "task-1", commandId = uuidv7(), fence } = by;
  const request = { command_id: commandId, ...body, ...(fence !== undefined && { fence }) };
  const command: { command_id: string; fence?: number | undefined } = validate(
    COMMAND_SCHEMAS[op as CommandOp],
    request,
  );
  const caller: Caller = {
    actor: { tenant, agent, task },
    commandId: command.command_id,
    fence: command.fence,
    requestHash: sha256Hex(`${op}${canonicalText(request)}`),
    traceparent: undefined,
  };
  if (op === "signature_add")
    return (await repository.esignatures.add(caller, verifiedIn(body))) as AnswerOf<Op>;
  const ofMission = MISSION_METHODS[op as keyof MissionMethods];
  if (ofMission !== undefined) {
    const { missions } = repository;
    const apply: (caller: Caller, command: never) => Promise<unknown> = missions[ofMission];
    return (await apply.call(missions, caller, command as never)) as AnswerOf<Op>;
  }
  const ofErasure = ERASURE_METHODS[op as keyof ErasureMethods];
  if (ofErasure !== undefined) {
    const { erasure } = repository;
    const apply: (caller: Caller, command: never) => Promise<unknown> = erasure[ofErasure];
    return (await apply.call(erasure, caller, command as never)) as AnswerOf<Op>;
  }
  const method = (METHODS[op as keyof Methods] ?? op) as MethodOf<CommandOp>;
  const apply: (caller: Caller, command: never) => Promise<unknown> = repository[method];
  return (await apply.call(repository, caller, command as never)) as AnswerOf<Op>;
}

export function input(changes: Partial<CheckpointInput["execution_state"]> = {}): CheckpointInput {
  return {
    metadata: { agent_type: "implementation" },
    execution_state: {
      phase: "implementing",
      completed_items: ["read the issue"],
      pending_items: ["write the code"],
      ...changes,
    },
  };
}

export function create(
  repository: CheckpointRepository,
  by: SendOptions & { checkpoint?: CheckpointInput; expectedVersion?: number } = {},
): Promise<CommittedAnswer> {
  const { checkpoint = input(), expectedVersion, ...sending } = by;
  const body = { checkpoint, ...(expectedVersion !== undefined && { expected_version: expectedVersion }) };
  return send(repository, "create", body, sending);
}

export function finalize(
  repository: CheckpointRepository,
  id: string,
  status: FinalStatus = "succeeded",
  by: SendOptions = {},
): Promise<CommittedAnswer> {
  return send(repository, "finalize", { checkpoint_id: id, status }, by);
}
