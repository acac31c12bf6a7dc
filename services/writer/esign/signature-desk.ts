/**
 * Accepts electronic signatures of people: verifies the statement and the token itself, and stores them. A refused attempt is recorded in the audit
 * chain of the tenant, counted, logged and alerted. A crash between the entry and the alert leaves the entry, which the chain keeps.
 */
import type { EsignIssuers } from "../../../shared/bus/access/issuers/esign-issuers.ts";
import { type AlertParts, publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { esignNonce, esignPolicy, statementFrom } from "../../../shared/integrity/esign/statement.ts";
import { verifiedClaims } from "../../../shared/integrity/esign/token-signature.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import type { Actor } from "../../../shared/protocol/commands.ts";
import {
  ESIGN_PAYLOAD_TYPE,
  type EsignStatement,
  type SignatureAddCommand,
  type SignatureAnswer,
} from "../../../shared/protocol/esign.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { parsePrincipal } from "../../../shared/protocol/principal.ts";
import { SigningRefused } from "../../../shared/protocol/signing-refusal.ts";
import type { VerifiedEsignature } from "../../../shared/records/esign/sign.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Caller } from "../../../shared/records/task/command-runner.ts";
import type { Metrics } from "../../../shared/runtime/observability/metrics.ts";

export interface DeskParts extends AlertParts {
  readonly repository: CheckpointRepository;
  readonly issuers: EsignIssuers;
  readonly metrics: Pick<Metrics, "alertsTotal" | "esignaturesTotal">;
  readonly now: () => number;
}

export class SignatureDesk {
  readonly #parts: DeskParts;

  constructor(parts: DeskParts) {
    this.#parts = parts;
  }

  /** Throws SigningRefused, FORBIDDEN after too many failed attempts, UNAVAILABLE without the keys of the provider. */
  async add(by: Caller, { payload, proof }: SignatureAddCommand): Promise<SignatureAnswer> {
    const { repository, metrics, log } = this.#parts;
    const { esignatures, applied } = repository;
    const { tenant, agent: caller, task } = by.actor;
    // A repetition may come when its token is no longer fresh.
    if (await applied.isApplied(tenant, by.commandId, by.deadlineMs ?? LIMITS.command_answer_ms_max))
      return esignatures.add(by, null);
    await esignatures.requireAttempt({ tenant, caller });
    try {
      const verified = await this.#verify(by.actor, payload, proof.id_token);
      const answer = await esignatures.add(by, verified);
      if (answer.replayed) return answer;
      metrics.esignaturesTotal.inc({ outcome: "added" });
      const { checkpoint_id, version, audit_seq } = answer;
      const ids = { tenant, agent_id: caller, task_id: task, checkpoint_id, version, audit_seq };
      log.info({ ...ids, meaning: verified.statement.meaning }, "a person has signed a checkpoint");
      return answer;
    } catch (error) {
      if (error instanceof SigningRefused) await this.#failed(by, error);
      throw error;
    }
  }

  async #verify(
    { tenant, agent: caller, task }: Actor,
    base64: string,
    token: string,
  ): Promise<VerifiedEsignature> {
    if (parsePrincipal(caller)?.kind !== "human") throw new SigningRefused("not_a_person");
    const payload = Buffer.from(base64, "base64");
    const statement = statementFrom(payload);
    if (statement === null) throw new SigningRefused("statement");
    const { subject, signer, signed_at } = statement;
    if (subject.tenant !== tenant || subject.task !== task) throw new SigningRefused("subject");
    this.#requirePolicy(tenant, statement);
    const jwk = await this.#parts.issuers.verify(token, {
      tenant,
      caller,
      signer: signer.id,
      printedName: signer.printed_name,
      nonce: esignNonce(payload),
      signedAtMs: Date.parse(signed_at),
      nowMs: this.#parts.now(),
    });
    const proof = { kind: "oidc", id_token: token, jwk } as const;
    // A form that the verifiers of bundles refuse could not be shown to an auditor.
    if (verifiedClaims(proof) === null) throw new SigningRefused("token");
    return {
      statement,
      signed: { payload_type: ESIGN_PAYLOAD_TYPE, payload: payload.toString("base64"), proof },
    };
  }

  #requirePolicy(tenant: string, { signer: { id }, policy }: EsignStatement): void {
    const settings = this.#parts.issuers.of(tenant).find(({ issuer }) => issuer === id.issuer);
    if (settings === undefined) throw new SigningRefused("issuer");
    if (esignPolicy(settings) !== policy) throw new SigningRefused("policy");
  }

  /** The refusal is the answer, also if it cannot be recorded now. */
  async #failed({ actor: { tenant, agent: caller, task }, commandId }: Caller, { reason }: SigningRefused) {
    const { repository, metrics, log, now } = this.#parts;
    metrics.esignaturesTotal.inc({ outcome: reason });
    const ids = { tenant, agent_id: caller, task_id: task, reason };
    log.warn(ids, "an attempt to sign a checkpoint was refused");
    try {
      const by = { tenant, caller };
      if (!(await repository.esignatures.recordFailure(by, { task, reason }))) return;
      const data = { taskId: task, caller, reason };
      const of = { tenant, task, occasion: `sign-${commandId}`, nowMs: now(), data };
      await publishAlert(this.#parts, alertOf("SIGN_ATTEMPT_FAILED", "warning", of));
    } catch (error) {
      log.error({ ...ids, error }, "a refused attempt to sign could not be recorded");
    }
  }
}
