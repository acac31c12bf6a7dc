/**
 * Verifies the electronic signatures of people in a bundle: the proof is for exactly these bytes, and the audit entry has
 * the hashes of the statement and the proof.
 */
import { createHash } from "node:crypto";
import { signedBytes } from "../../../integrity/dsse.ts";
import { exactBase64 } from "../../../integrity/merkle/note.ts";
import { textHash } from "./bundle-keys.ts";
import type { LineEntry } from "./bundle-lines.ts";
import { judgeProof } from "./bundle-proofs.ts";
import {
  type ExactObject,
  exactObjectIn,
  exactText,
  exactTime,
  isCountFrom,
  isExactObject,
  isHexHash,
  objectIn,
} from "./exact-json.ts";
import type { BundleFindings } from "./findings.ts";

const STATEMENT_TYPE = "application/vnd.fleet.esign.v1+json";
const STATEMENT_VERSION = 1;

/** A valid electronic signature, for the reader of the report. */
export interface ProvedEsignature {
  /** TASK/SEQ of its audit entry. */
  readonly at: string;
  readonly checkpoint_id: string;
  readonly version: number;
  readonly printed_name: string;
  readonly meaning: string;
  readonly signed_at: string;
  readonly zone: string;
  readonly issuer: string;
  readonly subject: string;
  /** `oidc`: a login. `webauthn`: a passkey. */
  readonly method: string;
}

export class BundleEsignatures {
  readonly valid: ProvedEsignature[] = [];
  readonly #findings: BundleFindings;
  /** The hash of each version of the task, as its entry states it. */
  #versions = new Map<string, string>();

  constructor(findings: BundleFindings) {
    this.#findings = findings;
  }

  begin(): void {
    this.#versions = new Map();
  }

  add({ task, seq, facts, line }: LineEntry): void {
    const { checkpoint_id: id, version, new_hash: hash } = facts;
    if (typeof id === "string" && typeof version === "number" && typeof hash === "string")
      this.#versions.set(versionName(id, version), hash);
    if (facts.op !== "signature_add" && line.esignature === undefined) return;
    const known = this.#versions.get(versionName(String(id), Number(version)));
    const judged = judge(line.esignature, facts, known);
    if (typeof judged === "string") this.#findings.add(judged, `${task}/${seq}`);
    else this.valid.push({ at: `${task}/${seq}`, ...judged });
  }
}

const versionName = (id: string, version: number): string => `${id}#${version}`;

/** The code of the fault, or what is shown. `known`: the hash of the version; undefined: no entry before states it. */
function judge(
  signed: LineEntry["line"][string] | undefined,
  facts: ExactObject,
  known: string | undefined,
): string | Omit<ProvedEsignature, "at"> {
  const signature = isExactObject(signed) ? signed : {};
  const proof = objectIn(signature, "proof");
  const payload = typeof signature.payload === "string" ? exactBase64(signature.payload) : null;
  const statement = payload === null ? null : exactObjectIn(payload);
  if (signature.payload_type !== STATEMENT_TYPE || payload === null || !isPersonStatement(statement))
    return "esign_statement";
  const [subject, signer] = [objectIn(statement, "subject"), objectIn(statement, "signer")];
  const { issuer, subject: person } = objectIn(signer, "id");
  const digest = createHash("sha256").update(signedBytes(STATEMENT_TYPE, payload)).digest();
  const proved = judgeProof(proof, statement, digest.toString("base64url"));
  if (typeof proved === "string") return proved;
  const here = ["tenant", "task", "checkpoint_id", "version"];
  if (here.some((name) => subject[name] !== facts[name])) return "esign_moved";
  if (known !== undefined && known !== subject.hash) return "esign_content";
  const { meaning, signed_at, zone } = statement;
  const recorded = {
    ...{
      op: "signature_add",
      old_hash: subject.hash,
      meaning,
      signer_issuer: issuer,
      signer_subject: person,
    },
    statement_hash: digest.toString("hex"),
    proof_hash: textHash(exactText(proved.hashed)),
  };
  if (Object.entries(recorded).some(([name, value]) => facts[name] !== value)) return "esign_unrecorded";
  const { method } = proved;
  const shown = {
    printed_name: signer.printed_name,
    meaning,
    signed_at,
    zone,
    issuer,
    subject: person,
    method,
  };
  return { checkpoint_id: subject.checkpoint_id, version: subject.version, ...shown } as ProvedEsignature;
}

function isPersonStatement(value: ExactObject | null): value is ExactObject {
  if (value === null) return false;
  const [subject, signer] = [objectIn(value, "subject"), objectIn(value, "signer")];
  const { issuer, subject: person } = objectIn(signer, "id");
  const texts = [subject.tenant, subject.task, subject.checkpoint_id, issuer, person, signer.printed_name];
  return (
    value.v === STATEMENT_VERSION &&
    [...texts, value.meaning, value.zone].every((text) => typeof text === "string") &&
    isCountFrom(1, subject.version) &&
    isHexHash(subject.hash) &&
    exactTime(value.signed_at) !== null
  );
}
