/** The reader's queries: one handler for each, from validated parameters to the result in the protocol. */

import { BusError } from "../../shared/bus/bus.ts";
import type {
  Facts,
  ForwardedRequest,
  ServiceAnswer,
  ServiceRequest,
} from "../../shared/bus/request/endpoint.ts";
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import type { MISSION_QUERY_OPS, QUEUE_OPS } from "../../shared/protocol/operations.ts";
import { type AnsweredOp, isAnsweredOp, QUERY_OPS, type QueryOp } from "../../shared/protocol/operations.ts";
import {
  type FleetStatus,
  QUERY_SCHEMAS,
  type QueryParams,
  type QueryResults,
} from "../../shared/protocol/queries.ts";
import { parseQuerySubject, type QueryAddress } from "../../shared/protocol/subjects.ts";
import { validate } from "../../shared/protocol/validation.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import { recordAccess } from "./access-acts.ts";
import type { ReadLog } from "./access-log/access-log.ts";
import type { AgentsQuery } from "./agents.ts";
import type { AlertQueries } from "./alerts.ts";
import type { ArtifactQueries } from "./artifacts/artifact-queries.ts";
import type { OfferQueries } from "./offers.ts";
import type { QueueQueries } from "./queue.ts";
import type { RecoveryQueries } from "./recoveries.ts";

export interface Queries {
  handle(request: ServiceRequest): Promise<ServiceAnswer | ForwardedRequest>;
}

/** The queries that one reader answers. Every service answers `diagnose`, this one too, on a subscription of its own. */
type ReaderOp = Exclude<AnsweredOp, "diagnose" | "denial_record">;

/** Complete by compilation: a missing handler, or a result that is not the protocol's, is a type error. */
type Handlers = {
  readonly [Op in ReaderOp]: (
    tenant: string,
    params: QueryParams<Op>,
    caller: string,
  ) => Promise<QueryResults[Op]>;
};

export function isQueryOp(op: string): op is QueryOp {
  return (QUERY_OPS as readonly string[]).includes(op);
}

function requireQueryOp(op: string): asserts op is QueryOp {
  if (!isQueryOp(op)) throw invalid("op", `one of ${QUERY_OPS.join(", ")}`, op);
}

/** Only these members: a search has more of them. */
const byAgent = ({ agent_id, from, to, limit, cursor }: QueryParams<"by_agent">) => ({
  ...{ agent_id, from, to, limit, cursor },
});

function missionHandlers({
  missions,
}: CheckpointRepository): Pick<Handlers, (typeof MISSION_QUERY_OPS)[number]> {
  return {
    missions: (tenant, query) => missions.list(tenant, query),
    mission: async (tenant, query, caller) => ({ mission: await missions.find(tenant, caller, query) }),
    sorties: (tenant, query) => missions.sorties(tenant, query),
    recovery_context: async (tenant, query) => ({
      recovery_context: await missions.recoveryContext(tenant, query),
    }),
    locks: (tenant, query) => missions.locks(tenant, query),
    mailbox: (tenant, query, caller) => missions.mailbox(tenant, caller, query),
    messages: (tenant, query, caller) => missions.messages(tenant, caller, query),
    resume_preview: (tenant, query, caller) => missions.previewResumption(tenant, caller, query),
  };
}

function queueHandlers(queue: QueueQueries): Pick<Handlers, (typeof QUEUE_OPS)[number]> {
  return {
    queue_status: (tenant) => queue.status(tenant),
    dead_list: (tenant, query) => queue.list(tenant, query),
    dead_retry: (tenant, { seq }, caller) => queue.retry(tenant, caller, seq),
    dead_drop: (tenant, { seq }, caller) => queue.drop(tenant, caller, seq),
  };
}

function evidenceHandlers({
  accessLogs,
  auditLogs,
  encryption,
  esignatures,
  signingKeys,
  tenantActs,
}: CheckpointRepository): Pick<
  Handlers,
  | "access_log"
  | "access_blocks"
  | "audit_log"
  | "audit_proof"
  | "audit_anchors"
  | "export_record"
  | "tenant_audit_proof"
  | "signing_keys"
  | "key_rotate"
  | "key_revoke"
  | "encryption_rotate"
  | "signatures"
  | "signers"
  | "signer_revoke"
  | "passkey_revoke"
> {
  return {
    access_log: (tenant, query) => accessLogs.list(tenant, query),
    access_blocks: (tenant, query) => accessLogs.blocks(tenant, query),
    audit_log: (tenant, query) => auditLogs.state(tenant, query),
    audit_proof: (tenant, query) => auditLogs.prove(tenant, query),
    tenant_audit_proof: (tenant, query) => auditLogs.proveAct(tenant, query),
    audit_anchors: (tenant, query) => auditLogs.anchors(tenant, query),
    export_record: (tenant, query, caller) => tenantActs.recordExport({ tenant, caller }, query),
    signing_keys: () => signingKeys.list(),
    key_rotate: (tenant, query, caller) => signingKeys.rotate({ tenant, caller }, query),
    encryption_rotate: (tenant, _query, caller) => encryption.rotate({ tenant, caller }),
    signatures: (tenant, query) => esignatures.list(tenant, query),
    signers: (tenant, query) => esignatures.signers(tenant, query),
    signer_revoke: (tenant, query, caller) => esignatures.revokeSigner({ tenant, caller }, query),
    passkey_revoke: (tenant, query, caller) => esignatures.revokePasskey({ tenant, caller }, query),
    key_revoke: (tenant, query, caller) => signingKeys.revoke({ tenant, caller }, query),
  };
}

function retentionHandlers(
  repository: CheckpointRepository,
): Pick<Handlers, "prunable" | "holds" | "shreds" | "shred_certificate"> {
  const { erasure } = repository;
  return {
    prunable: (tenant, query) => repository.prunable(tenant, query),
    holds: (tenant, query) => erasure.holds(tenant, query),
    shreds: (tenant, query) => erasure.shreds(tenant, query),
    shred_certificate: (tenant, query) => erasure.certificate(tenant, query),
  };
}

export function createQueries(
  repository: CheckpointRepository,
  queue: QueueQueries,
  status: () => Promise<FleetStatus>,
  agents: AgentsQuery,
  alerts: AlertQueries,
  recoveries: RecoveryQueries,
  offers: OfferQueries,
  direct: Pick<Handlers, "turn_event" | "events" | "signing_request" | keyof ArtifactQueries>,
  readLog: ReadLog,
): Queries {
  const handlers: Handlers = {
    get: (tenant, { checkpoint_id: id, version, ...form }) =>
      repository.reads.find(tenant, id, version, form),
    latest: (tenant, query) => repository.latest(tenant, query.task_id),
    history: (tenant, query) => repository.history(tenant, query),
    by_agent: (tenant, query) => repository.search(tenant, byAgent(query)),
    search: (tenant, query) => repository.search(tenant, query),
    task: async (tenant, query) => ({ task: await repository.task(tenant, query.task_id) }),
    tasks: (tenant, query) => repository.tasks(tenant, query),
    audit: (tenant, query) => repository.audit(tenant, query),
    handoff: async (tenant, query) => ({ handoff: await repository.handoff(tenant, query) }),
    handoffs: (tenant, query) => repository.handoffs(tenant, query),
    recovery_point: (tenant, query) => recoveries.point(tenant, query),
    recoveries: (tenant, query) => recoveries.list(tenant, query),
    status,
    index_rebuild: (tenant, _query, caller) => repository.rebuildIndex({ tenant, caller }),
    index_status: () => repository.indexStatus(),
    scrub_status: () => repository.scrubStatus(),
    scrub_start: (tenant, _query, caller) => repository.startScrub({ tenant, caller }),
    scrub_findings: (tenant, query) => repository.scrubFindings(tenant, query),
    agents,
    ...direct,
    tenant_audit: (tenant, query) => repository.tenantActs.page(tenant, query),
    access_record: (tenant, { acts }, caller) => recordAccess(repository, { tenant, caller }, acts),
    ...retentionHandlers(repository),
    ...evidenceHandlers(repository),
    mission_records: (tenant, query) => repository.missions.records(tenant, query),
    ...missionHandlers(repository),
    ...queueHandlers(queue),
    alerts: (tenant, query) => alerts.list(tenant, query),
    alert: (tenant, { alert_id }) => alerts.show(tenant, alert_id),
    alert_ack: (tenant, query, caller) => alerts.acknowledge(tenant, caller, query),
    offer_settle: (tenant, query) => offers.settle(tenant, query),
  };
  return { handle: createHandle(handlers, offers, readLog) };
}

/** From a request to its answer. An answer with content may have to wait for its entry in the access log. */
function createHandle(handlers: Handlers, offers: OfferQueries, readLog: ReadLog): Queries["handle"] {
  const answer = async <Op extends ReaderOp>(
    op: Op,
    address: QueryAddress,
    request: ServiceRequest,
  ): Promise<unknown> => {
    const params = validate(QUERY_SCHEMAS[op], request.body) as QueryParams<Op>;
    const result = await handlers[op](address.tenant, params, address.caller);
    return readLog.answered(op, address, request, { params, result }) ?? result;
  };
  const forward = async (address: QueryAddress, request: ServiceRequest): Promise<ForwardedRequest> => {
    const params = validate(QUERY_SCHEMAS.offer_next, request.body);
    // Before the stream delivers it: then no service sees the answer any more.
    await readLog.forwarded(address, request, params.agent_type);
    return offers.next(address.tenant, params, request.replyTo);
  };
  const reported = (address: QueryAddress, request: ServiceRequest): ServiceAnswer => {
    const { denials } = validate(QUERY_SCHEMAS.denial_record, request.body);
    readLog.reported(address, request, denials);
    const result: QueryResults["denial_record"] = { recorded: denials.length };
    return { value: { status: "ok", result } };
  };
  return async (request) => {
    const { subject, body } = request;
    const address = parseQuerySubject(subject);
    const { tenant, caller, op } = address;
    requireQueryOp(op);
    if (op === "diagnose") return { forwarded: true };
    if (op === "denial_record") return reported(address, request);
    try {
      const done = isAnsweredOp(op)
        ? { value: { status: "ok", result: await answer(op, address, request) } }
        : await forward(address, request);
      return { ...done, facts: { tenant, caller, ...named(body) } };
    } catch (error) {
      readLog.failed(address, request, { body, error });
      throw error instanceof BusError ? unavailable(error) : error;
    }
  };
}

function unavailable(error: BusError): FleetError {
  return new FleetError("UNAVAILABLE", "the bus could not do this", {
    details: { bus: error.kind },
    cause: error,
  });
}

/** The identifiers in a query, for its log line. */
function named(body: unknown): Facts {
  const { task_id, mission_id, checkpoint_id, agent_id, agent_type, handoff_id, alert_id } = body as Record<
    string,
    unknown
  >;
  return {
    ...(mission_id !== undefined && { mission_id }),
    ...(task_id !== undefined && { task_id }),
    ...(checkpoint_id !== undefined && { checkpoint_id }),
    ...(agent_id !== undefined && { agent_id }),
    ...(agent_type !== undefined && { agent_type }),
    ...(handoff_id !== undefined && { handoff_id }),
    ...(alert_id !== undefined && { alert_id }),
  };
}
