/** `fleet.admin.esign`: electronic signatures of people. */
import { placedAct } from "../../integrity/esign/enrolment-act.ts";
import { esignBlockOf, judgeEsignature } from "../../integrity/esign/judgement.ts";
import { enrolmentNonce, enrolmentPayload } from "../../integrity/esign/passkey.ts";
import { esignNonce, esignPayload } from "../../integrity/esign/statement.ts";
import { hashOf } from "../../integrity/seal.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type {
  EsignStatement,
  ListedEsignature,
  SignatureAnswer,
  SignaturePage,
  SigningRequest,
} from "../../protocol/esign.ts";
import type { PasskeyEnrolment } from "../../protocol/esign-proof.ts";
import type { RevokedPasskey, SignerPage, SignerRecord } from "../../protocol/esign-signer.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import type { Camel } from "../case-convert.ts";
import { resultOf } from "../client/outcome.ts";
import type { TaskParts } from "../client/task.ts";
import type { CallOptions } from "../request/request.ts";

export interface ListEsignaturesOptions extends CallOptions {
  readonly checkpointId?: string | undefined;
  readonly version?: number | undefined;
  /** The known hash of that version. Absent: the hashes are not compared, unless `content` is true. */
  readonly hash?: string | undefined;
  /** Read each signed version, and recompute its hash. */
  readonly content?: boolean | undefined;
}

/** What a browser answers to `navigator.credentials.get`, each in base64url. */
export interface PasskeyAnswer {
  /** `rawId`. */
  readonly credentialId: string;
  readonly authenticatorData: string;
  /** `clientDataJSON`. */
  readonly clientData: string;
  readonly signature: string;
  /** With the first signature of a passkey. `idToken`: of a fresh login with {@link nonceOfEnrolment}. */
  readonly enrolment?: { readonly statement: PasskeyEnrolment; readonly idToken: string } | undefined;
}

/** A checkpoint beside which a display shows signatures. */
interface ShownCheckpoint {
  readonly metadata: { readonly checkpoint_id: string; readonly task_id: string; readonly version: number };
  readonly compliance: { readonly hash: string };
}

/** What a display of checkpoints shows with them. */
export interface CheckpointSignatures {
  /** Of all their versions. */
  readonly signatures: readonly ListedEsignature[];
  /** null: all were read. Else a display says that there may be others. */
  readonly unread: { readonly tasks: number; readonly problem: string } | null;
}

/** Tasks whose signatures are read at once. */
const TASKS_AT_ONCE = 8;
/** Checkpoints whose signatures are read each by a query of its own. For more, all signatures of the task cost the fleet less. */
const NAMED_AT_ONCE = 4;

type AddedSignature = Omit<Camel<SignatureAnswer>, "status">;

interface AddOptions extends CallOptions {
  readonly commandId?: string | undefined;
}

/** The nonce of the step-up by which a person enrols a passkey. */
export const nonceOfEnrolment = (enrolment: PasskeyEnrolment): string =>
  enrolmentNonce(enrolmentPayload(enrolment));

/** The nonce of the step-up by which a person signs a statement, and the challenge for a passkey. */
export const nonceOfStatement = (statement: EsignStatement): string => esignNonce(esignPayload(statement));

const endOf = ({ deadlineMs = LIMITS.request_deadline_ms_default }: CallOptions): number =>
  performance.now() + deadlineMs;

export class EsignAdmin {
  readonly #parts: TaskParts & { readonly tenant: string };

  constructor(parts: TaskParts & { readonly tenant: string }) {
    this.#parts = parts;
  }

  /** What a person would sign now, and the identity providers that the fleet accepts. Throws CONFLICT if there are none. */
  request(query: Camel<QueryInput<"signing_request">> & CallOptions): Promise<SigningRequest> {
    return this.#parts.queries.send("signing_request", query);
  }

  /** What a person would sign, as it is stored. This process has recomputed its hash; CORRUPT if that is another one. */
  async contentOf(
    { checkpoint_id: checkpointId, version, hash }: EsignStatement["subject"],
    options: CallOptions = {},
  ): Promise<Checkpoint> {
    const query = { checkpointId, version, asStored: true, ...options };
    const { checkpoint } = await this.#parts.queries.send("get", query);
    if (hashOf(checkpoint) === hash) return checkpoint;
    throw new FleetError("CORRUPT", "the content of the checkpoint does not have the hash to sign", {
      details: { checkpoint_id: checkpointId, version },
    });
  }

  /** `idToken`: of a fresh login of the signer with {@link nonceOfStatement}. Throws FORBIDDEN with the `reason`. */
  async add(statement: EsignStatement, idToken: string, options: AddOptions = {}): Promise<AddedSignature> {
    return this.#add(statement, { kind: "oidc", id_token: idToken }, options);
  }

  /** `answer`: of a passkey of the signer, for {@link nonceOfStatement} as the challenge. Throws FORBIDDEN with the `reason`. */
  async addWithPasskey(
    statement: EsignStatement,
    { credentialId, authenticatorData, clientData, signature, enrolment }: PasskeyAnswer,
    options: AddOptions = {},
  ): Promise<AddedSignature> {
    const proof = {
      ...{ kind: "webauthn", credential_id: credentialId, authenticator_data: authenticatorData },
      ...{ client_data: clientData, signature },
      ...(enrolment !== undefined && {
        enrolment: {
          payload: enrolmentPayload(enrolment.statement).toString("base64"),
          id_token: enrolment.idToken,
        },
      }),
    };
    return this.#add(statement, proof, options);
  }

  async #add(statement: EsignStatement, proof: object, options: AddOptions): Promise<AddedSignature> {
    const body = { payload: esignPayload(statement).toString("base64"), proof };
    const { task } = statement.subject;
    return resultOf(await this.#parts.delivery.deliverNow("signature_add", task, body, options));
  }

  /** All signatures of the task, or of one version, each verified in this process. */
  async list(
    taskId: string,
    { checkpointId, version, hash, content = false, ...call }: ListEsignaturesOptions = {},
  ): Promise<readonly ListedEsignature[]> {
    const hashes = new Map<string, Promise<string>>();
    const hashFor = (one: ListedEsignature): string | Promise<string> | undefined => {
      if (!content) return hash;
      const name = `${one.checkpoint_id}#${one.version}`;
      const known = hashes.get(name) ?? this.#hashOf(one, call);
      hashes.set(name, known);
      return known;
    };
    return await this.#list({ taskId, checkpointId, version, ...call }, hashFor);
  }

  /**
   * What a display that only names checkpoints of a task must show with them: the signatures of all their versions, in the time of one call. Their content
   * is not compared.
   */
  async ofNamed(
    taskId: string,
    checkpointIds: readonly string[],
    call: CallOptions = {},
  ): Promise<readonly ListedEsignature[]> {
    const end = endOf(call);
    const ids = new Set(checkpointIds);
    if (ids.size > NAMED_AT_ONCE) {
      const all = await this.#list({ taskId, ...call }, () => undefined, end);
      return all.filter(({ checkpoint_id }) => ids.has(checkpoint_id));
    }
    const found = await Promise.all(
      [...ids].map((checkpointId) => this.#list({ taskId, checkpointId, ...call }, () => undefined, end)),
    );
    return found.flat().toSorted((a, b) => a.audit_seq - b.audit_seq);
  }

  /**
   * What a display of checkpoints must show with them: the signatures of all their versions, in the time of one call. A signature of the shown
   * version is compared with its hash. The first failure ends the reads, because a fleet that is away, or of an older version, fails them all.
   */
  async ofCheckpoints(
    checkpoints: readonly ShownCheckpoint[],
    call: CallOptions = {},
  ): Promise<CheckpointSignatures> {
    const shown = new Map(checkpoints.map((one) => [one.metadata.checkpoint_id, one]));
    const tasks = [...new Set(checkpoints.map(({ metadata }) => metadata.task_id))];
    const only = checkpoints.length === 1 ? checkpoints[0]!.metadata.checkpoint_id : undefined;
    const hashFor = ({ checkpoint_id, version }: ListedEsignature): string | undefined => {
      const one = shown.get(checkpoint_id);
      return one?.metadata.version === version ? one.compliance.hash : undefined;
    };
    const end = endOf(call);
    const found: ListedEsignature[] = [];
    let read = 0;
    let problem: string | null = null;
    for (let at = 0; at < tasks.length && problem === null; at += TASKS_AT_ONCE) {
      const some = tasks
        .slice(at, at + TASKS_AT_ONCE)
        .map((taskId) => this.#list({ taskId, checkpointId: only, ...call }, hashFor, end));
      for (const result of await Promise.allSettled(some)) {
        if (result.status === "fulfilled") {
          found.push(...result.value);
          read += 1;
        } else if (result.reason instanceof FleetError) problem ??= result.reason.code;
        else throw result.reason;
      }
    }
    return {
      signatures: found.filter(({ checkpoint_id }) => shown.has(checkpoint_id)),
      unread: problem === null ? null : { tasks: tasks.length - read, problem },
    };
  }

  /** `end`: of all pages together. Absent: each page has the time of one call. */
  async #list(
    query: Camel<QueryInput<"signatures">> & CallOptions,
    hashFor: (one: ListedEsignature) => string | Promise<string> | undefined,
    end?: number,
  ): Promise<ListedEsignature[]> {
    const all: ListedEsignature[] = [];
    for (let fromSeq: number | undefined = 1; fromSeq !== undefined; ) {
      const page: SignaturePage = await this.#parts.queries.send("signatures", {
        ...query,
        ...(end !== undefined && { deadlineMs: Math.max(1, Math.round(end - performance.now())) }),
        fromSeq,
      });
      for (const one of page.signatures) all.push(this.#judged(query.taskId, one, await hashFor(one)));
      fromSeq = page.next_seq;
    }
    return all;
  }

  /** The people who have signed or were revoked, in pages. */
  signers(query: Camel<QueryInput<"signers">> & CallOptions = {}): Promise<SignerPage> {
    return this.#parts.queries.send("signers", query);
  }

  /** Refuses later signatures of a person. Earlier ones stay valid. */
  async revokeSigner(query: Camel<QueryInput<"signer_revoke">> & CallOptions): Promise<SignerRecord> {
    return (await this.#parts.queries.send("signer_revoke", query)).signer;
  }

  /** Refuses later signatures with a passkey. Earlier ones stay valid. */
  async revokePasskey(
    query: Camel<QueryInput<"passkey_revoke">> & CallOptions,
  ): Promise<RevokedPasskey["passkey"]> {
    return (await this.#parts.queries.send("passkey_revoke", query)).passkey;
  }

  #judged(task: string, listed: ListedEsignature, hash: string | undefined): ListedEsignature {
    const { signed, entry, checkpoint_id, version, audit_seq: seq, passkey_acts, newest_version } = listed;
    const facts = entry === null ? undefined : (JSON.parse(entry) as Record<string, unknown>);
    const { tenant } = this.#parts;
    const acts = passkey_acts?.map(placedAct);
    const place = { tenant, task, checkpoint_id, version, hash, seq, facts, acts };
    const block = esignBlockOf(judgeEsignature(signed, place), place);
    return {
      ...{ ...block, signed, entry },
      ...(newest_version !== undefined && { newest_version }),
      ...(passkey_acts !== undefined && { passkey_acts }),
    };
  }

  /** Of the content. Empty: it is lost or damaged. */
  async #hashOf(
    { checkpoint_id: checkpointId, version }: ListedEsignature,
    call: CallOptions,
  ): Promise<string> {
    try {
      const query = { checkpointId, version, asStored: true, ...call };
      return hashOf((await this.#parts.queries.send("get", query)).checkpoint);
    } catch (error) {
      if (error instanceof FleetError && (error.code === "CORRUPT" || error.code === "NOT_FOUND")) return "";
      throw error;
    }
  }
}
