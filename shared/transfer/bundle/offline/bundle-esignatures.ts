/**
 * Verifies the electronic signatures of people in a bundle: the proof is for exactly these bytes, the audit entry has
 * the hashes of the statement and the proof, and the chain of the tenant has the passkey.
 */
import { createHash } from "node:crypto";
import { signedBytes } from "../../../integrity/dsse.ts";
import { exactBase64 } from "../../../integrity/merkle/note.ts";
import { type BundleKeys, textHash } from "./bundle-keys.ts";
import type { LineEntry } from "./bundle-lines.ts";
import { passkeyFault } from "./bundle-passkeys.ts";
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
  /** Of the checkpoint in the bundle: a higher one has superseded the signed one. */
  readonly newest_version: number;
  readonly printed_name: string;
  readonly meaning: string;
  /** As the person wrote it; null: none. */
  readonly reason: string | null;
  readonly signed_at: string;
  readonly zone: string;
  readonly issuer: string;
  readonly subject: string;
  /** `oidc`: a login. `webauthn`: a passkey. */
  readonly method: string;
}

export class BundleEsignatures {
  readonly #valid: ProvedEsignature[] = [];
  /** Those of the task that is read. */
  #ofTask: Omit<ProvedEsignature, "newest_version">[] = [];
  /** The newest version of each checkpoint of the task. */
  #newest = new Map<string, number>();
  readonly #findings: BundleFindings;
  readonly #keys: BundleKeys;
  /** The hash of each version of the task, as its entry states it. */
  #versions = new Map<string, string>();
  #isRequired = false;

  constructor(findings: BundleFindings, keys: BundleKeys) {
    this.#findings = findings;
    this.#keys = keys;
  }

  /** Up to here. */
  get valid(): readonly ProvedEsignature[] {
    this.#endTask();
    return this.#valid;
  }

  begin(isRequired: boolean): void {
    this.#endTask();
    this.#newest = new Map();
    this.#versions = new Map();
    this.#isRequired = isRequired;
  }

  add(entry: LineEntry): void {
    const { task, seq, facts, line } = entry;
    const { checkpoint_id: id, version, new_hash: hash } = facts;
    if (typeof id === "string" && typeof version === "number" && typeof hash === "string")
      this.#versions.set(versionName(id, version), hash);
    if (typeof id === "string" && isCountFrom(1, version) && typeof hash === "string")
      this.#newest.set(id, Math.max(version, this.#newest.get(id) ?? 0));
    const isOfPerson = line.esignature !== undefined || line.passkey_acts !== undefined;
    if (facts.op !== "signature_add" && !isOfPerson) return;
    const known = this.#versions.get(versionName(String(id), Number(version)));
    const judged = judge(line.esignature, facts, known);
    const at = `${task}/${seq}`;
    const fault = typeof judged === "string" ? judged : this.#passkeyFault(entry, judged.hashed);
    if (typeof judged === "string" || fault !== null) this.#findings.add(String(fault), at);
    else this.#ofTask.push({ at, ...judged.shown });
  }

  /** A version that supersedes a signed one comes after the signature. */
  #endTask(): void {
    for (const one of this.#ofTask) {
      const newest = this.#newest.get(one.checkpoint_id) ?? 0;
      this.#valid.push({ ...one, newest_version: Math.max(one.version, newest) });
    }
    this.#ofTask = [];
  }

  #passkeyFault(entry: LineEntry, hashed: ExactObject): string | null {
    if (hashed.kind === "webauthn")
      return passkeyFault(entry, hashed, { keys: this.#keys, isRequired: this.#isRequired });
    return entry.line.passkey_acts === undefined ? null : "esign_passkey";
  }
}

const versionName = (id: string, version: number): string => `${id}#${version}`;

interface JudgedEsignatureLine {
  readonly shown: Omit<ProvedEsignature, "at" | "newest_version">;
  /** The verified proof. */
  readonly hashed: ExactObject;
}

/** The code of the fault, or what is shown. `known`: the hash of the version; undefined: no entry before states it. */
function judge(
  signed: LineEntry["line"][string] | undefined,
  facts: ExactObject,
  known: string | undefined,
): string | JudgedEsignatureLine {
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
  const { meaning, reason = null, signed_at, zone } = statement;
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
    ...{ checkpoint_id: subject.checkpoint_id, version: subject.version },
    ...{ printed_name: signer.printed_name, meaning, reason, signed_at, zone },
    ...{ issuer, subject: person, method },
  };
  return { shown: shown as JudgedEsignatureLine["shown"], hashed: proved.hashed };
}

function isPersonStatement(value: ExactObject | null): value is ExactObject {
  if (value === null) return false;
  const [subject, signer] = [objectIn(value, "subject"), objectIn(value, "signer")];
  const { issuer, subject: person } = objectIn(signer, "id");
  const texts = [subject.tenant, subject.task, subject.checkpoint_id, issuer, person, signer.printed_name];
  return (
    value.v === STATEMENT_VERSION &&
    [...texts, value.meaning, value.zone].every((text) => typeof text === "string") &&
    (value.reason === undefined || typeof value.reason === "string") &&
    isCountFrom(1, subject.version) &&
    isHexHash(subject.hash) &&
    exactTime(value.signed_at) !== null
  );
}
