/** The operations on electronic signatures. */
import { FleetError } from "../../protocol/errors.ts";
import type { EsignSubject, SignatureAnswer, SignaturePage } from "../../protocol/esign.ts";
import type { StoredEnrolment } from "../../protocol/esign-proof.ts";
import type { RevokedPasskey, RevokedSigner, SignerPage } from "../../protocol/esign-signer.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { TenantCaller } from "../audit/tenant-audit.ts";
import { readTask } from "../checkpoint/lookup.ts";
import type { Transactions } from "../kv/transactions.ts";
import type { Caller, CommandRunner } from "../task/command-runner.ts";
import { type RefusedSigning, recordFailedAttempt, requireAttempt } from "./failed-attempts.ts";
import { listEsignatures } from "./lists.ts";
import { findPasskey, readPasskey, revokePasskey } from "./passkeys.ts";
import { addEsignature, signableVersion, type VerifiedEsignature } from "./sign.ts";
import { SignerTrails, UNREAD_TRAIL } from "./signer-trail.ts";
import { listSigners, revokeSigner } from "./signers.ts";

export class Esignatures {
  readonly #transactions: Transactions;
  readonly #commands: CommandRunner;
  readonly #now: () => number;
  readonly #trails: SignerTrails;

  constructor(
    { transactions, now }: { readonly transactions: Transactions; readonly now: () => number },
    commands: CommandRunner,
  ) {
    this.#transactions = transactions;
    this.#commands = commands;
    this.#now = now;
    this.#trails = new SignerTrails(transactions);
  }

  /** `verified` null: the command was applied before, and its answer is repeated. */
  async add(by: Caller, verified: VerifiedEsignature | null): Promise<SignatureAnswer> {
    const trailed = verified && { ...verified, trail: await this.#trails.read(by.actor.tenant) };
    return this.#commands.run("signature_add", by, (tx, context) => addEsignature(tx, context, trailed));
  }

  /** Throws FORBIDDEN after too many failed attempts of the caller. */
  requireAttempt(by: TenantCaller): Promise<void> {
    return this.#transactions.read("sign_attempts", (reader) => requireAttempt(reader, by, this.#now()));
  }

  /** False: enough attempts of the caller are recorded. */
  async recordFailure(by: TenantCaller, attempt: RefusedSigning): Promise<boolean> {
    const nowMs = this.#now();
    const { value } = await this.#transactions.transact("sign_refuse", (tx) =>
      recordFailedAttempt(tx, by, attempt, nowMs),
    );
    return value;
  }

  /** What a person would sign now. Throws NOT_FOUND or CORRUPT. */
  subject(
    tenant: string,
    { task_id: task, checkpoint_id: named, version }: QueryParams<"signing_request">,
  ): Promise<EsignSubject> {
    return this.#transactions.read("signing_request", async (reader) => {
      const head = await readTask(reader, tenant, task);
      const id = named ?? head?.latest_id ?? null;
      if (head === null || id === null)
        throw new FleetError("NOT_FOUND", "the task has no checkpoint", { details: { task_id: task } });
      const { madeBy: _, ...found } = await signableVersion(reader, { tenant, task, id, version });
      const { audit_seq: seq, audit_hash: hash } = head;
      return { tenant, task, checkpoint_id: id, ...found, head: { seq, hash } };
    });
  }

  list(tenant: string, query: QueryParams<"signatures">): Promise<SignaturePage> {
    return this.#transactions.read("signatures", (reader) => listEsignatures(reader, tenant, query));
  }

  signers(tenant: string, query: QueryParams<"signers">): Promise<SignerPage> {
    return this.#transactions.read("signers", (reader) => listSigners(reader, tenant, query));
  }

  /** The enrolment of a passkey; null: it is not enrolled. Whether it was revoked is judged when the signature is added. */
  enrolmentOf(tenant: string, credentialId: string): Promise<StoredEnrolment | null> {
    return this.#transactions.read("passkey", async (reader) => {
      const passkey = await findPasskey(reader, tenant, credentialId);
      return passkey === null ? null : passkey.enrolment;
    });
  }

  async revokePasskey(by: TenantCaller, query: QueryParams<"passkey_revoke">): Promise<RevokedPasskey> {
    const nowMs = this.#now();
    const known = await this.#transactions.read("passkey", (reader) =>
      readPasskey(reader, by.tenant, query.passkey_id),
    );
    const trail = known === null ? await this.#trails.read(by.tenant) : UNREAD_TRAIL;
    const { value: passkey } = await this.#transactions.transact("passkey_revoke", (tx) =>
      revokePasskey(tx, by, query, { nowMs, trail }),
    );
    return { passkey };
  }

  async revokeSigner(by: TenantCaller, query: QueryParams<"signer_revoke">): Promise<RevokedSigner> {
    const nowMs = this.#now();
    const { value: signer } = await this.#transactions.transact("signer_revoke", (tx) =>
      revokeSigner(tx, by, query, nowMs),
    );
    return { signer };
  }
}
