/** `fleet.admin.esign`: electronic signatures of people. */
import { placedAct } from "../../integrity/esign/enrolment-act.ts";
import { esignBlockOf, judgeEsignature } from "../../integrity/esign/judgement.ts";
import { enrolmentNonce, enrolmentPayload } from "../../integrity/esign/passkey.ts";
import { esignNonce, esignPayload } from "../../integrity/esign/statement.ts";
import { hashOf } from "../../integrity/seal.ts";
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

type AddedSignature = Omit<Camel<SignatureAnswer>, "status">;

interface AddOptions extends CallOptions {
  readonly commandId?: string | undefined;
}

/** The nonce of the step-up by which a person enrols a passkey. */
export const nonceOfEnrolment = (enrolment: PasskeyEnrolment): string =>
  enrolmentNonce(enrolmentPayload(enrolment));

/** The nonce of the step-up by which a person signs a statement, and the challenge for a passkey. */
export const nonceOfStatement = (statement: EsignStatement): string => esignNonce(esignPayload(statement));

export class EsignAdmin {
  readonly #parts: TaskParts & { readonly tenant: string };

  constructor(parts: TaskParts & { readonly tenant: string }) {
    this.#parts = parts;
  }

  /** What a person would sign now, and the identity providers that the fleet accepts. Throws CONFLICT if there are none. */
  request(query: Camel<QueryInput<"signing_request">> & CallOptions): Promise<SigningRequest> {
    return this.#parts.queries.send("signing_request", query);
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
    const all: ListedEsignature[] = [];
    const hashes = new Map<string, Promise<string>>();
    for (let fromSeq: number | undefined = 1; fromSeq !== undefined; ) {
      const query: Camel<QueryInput<"signatures">> = { taskId, checkpointId, version, fromSeq };
      const page: SignaturePage = await this.#parts.queries.send("signatures", { ...query, ...call });
      for (const one of page.signatures) {
        const name = `${one.checkpoint_id}#${one.version}`;
        if (content && !hashes.has(name)) hashes.set(name, this.#hashOf(one, call));
        all.push(this.#judged(taskId, one, content ? await hashes.get(name) : hash));
      }
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
