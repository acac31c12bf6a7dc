/**
 * Accepts electronic signatures of people: verifies the statement and the proof itself, and stores them. A refused attempt is recorded in the audit
 * chain of the tenant, counted, logged and alerted. A crash between the entry and the alert leaves the entry, which the chain keeps.
 */
import type { EsignIssuers } from "../../../shared/bus/access/issuers/esign-issuers.ts";
import { type AlertParts, publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import type { Actor } from "../../../shared/protocol/commands.ts";
import type { SignatureAddCommand, SignatureAnswer } from "../../../shared/protocol/esign.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { parsePrincipal } from "../../../shared/protocol/principal.ts";
import { SigningRefused } from "../../../shared/protocol/signing-refusal.ts";
import type { VerifiedEsignature } from "../../../shared/records/esign/sign.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Caller } from "../../../shared/records/task/command-runner.ts";
import type { Metrics } from "../../../shared/runtime/observability/metrics.ts";
import { verifySigning } from "./proofs.ts";

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
  async add(by: Caller, sent: SignatureAddCommand): Promise<SignatureAnswer> {
    const { repository, metrics, log } = this.#parts;
    const { esignatures, applied } = repository;
    const { tenant, agent: caller, task } = by.actor;
    // A repetition may come when its proof is no longer fresh.
    if (await applied.isApplied(tenant, by.commandId, by.deadlineMs ?? LIMITS.command_answer_ms_max))
      return esignatures.add(by, null);
    await esignatures.requireAttempt({ tenant, caller });
    try {
      const verified = await this.#verify(by.actor, sent);
      const answer = await esignatures.add(by, verified);
      if (answer.replayed) return answer;
      metrics.esignaturesTotal.inc({ outcome: "added" });
      const { checkpoint_id, version, audit_seq } = answer;
      const ids = { tenant, agent_id: caller, task_id: task, checkpoint_id, version, audit_seq };
      const { statement, signed } = verified;
      const facts = { ...ids, meaning: statement.meaning, method: signed.proof.kind };
      log.info(facts, "a person has signed a checkpoint");
      return answer;
    } catch (error) {
      if (error instanceof SigningRefused) await this.#failed(by, error);
      throw error;
    }
  }

  async #verify(
    { tenant, agent: caller, task }: Actor,
    sent: SignatureAddCommand,
  ): Promise<VerifiedEsignature> {
    if (parsePrincipal(caller)?.kind !== "human") throw new SigningRefused("not_a_person");
    return verifySigning(this.#parts, { tenant, caller, task }, sent);
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
