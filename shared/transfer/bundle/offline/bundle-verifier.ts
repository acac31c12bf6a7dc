/** Verifies a bundle of evidence. EXPORT.md specifies each step and each code. */
import { closeSync, openSync } from "node:fs";
import type { LogCheckpoint } from "../../../integrity/merkle/note.ts";
import { type AccessPlace, BundleAccess } from "./access/bundle-access.ts";
import {
  type ArchiveMember,
  archiveBytes,
  memberHash,
  memberLines,
  onlyLine,
  readArchive,
} from "./archive.ts";
import { BundleAnchors, type NewestAnchor } from "./bundle-anchors.ts";
import { BundleEntries } from "./bundle-entries.ts";
import { BundleEsignatures, type ProvedEsignature } from "./bundle-esignatures.ts";
import { BundleKeys, type BundleRevocation, KEY_TENANT, keysIn } from "./bundle-keys.ts";
import { BundleLines } from "./bundle-lines.ts";
import { continuationProblem, logKeys, openLog } from "./bundle-log.ts";
import { isManifest, isOfOtherFormat } from "./bundle-manifest.ts";
import { type ExactObject, exactObjectIn, exactTime, objectIn } from "./exact-json.ts";
import { type BundleFinding, BundleFindings } from "./findings.ts";
import { type JudgedSeal, judgeSeal } from "./seal/bundle-seal.ts";

const MANIFEST = "manifest.json";
const SEAL = "seal.json";
const ACCESS = "access.jsonl";
const JSON_BYTES_MAX = 8_388_608;
const NOTE_BYTES_MAX = 100_000;

export interface BundleTrust {
  /** The ids of the keys that the auditor knows from another place. null: none are named. */
  readonly keys: ReadonlySet<string> | null;
  /** The ids of keys that the auditor knows as revoked. */
  readonly revoked?: ReadonlySet<string>;
  /** The checkpoint of the log that the auditor has kept. */
  readonly kept: string | null;
  /** Certificates of the time-stamp authorities that the auditor trusts, PEM. null: none are named. */
  readonly authorities?: string | null;
}

export interface BundleReport {
  readonly ok: boolean;
  readonly tenant: string | null;
  readonly fleet: string | null;
  readonly exported_at: string | null;
  /** Whether the keys were compared with those of the auditor; false: the bundle alone states them. */
  readonly keys_compared: boolean;
  /** Whether the audit entries about the keys are in the bundle; false: only the fleet states when a key was valid. */
  readonly keys_proved: boolean;
  /** The ids of the keys with valid signatures. */
  readonly keys: readonly string[];
  /** Those of them that are revoked, in the bundle or by the auditor. */
  readonly keys_revoked: readonly BundleRevocation[];
  /** Whether the log continues the kept checkpoint. null: none was given. */
  readonly continues: boolean | null;
  readonly log_size: number | null;
  readonly sealed: boolean;
  /**
   * What the fleet compared with its store when it sealed the bundle: that each task has all entries of that time
   * (`tasks`), and that the bundle has all tasks of the tenant (`tenant`). null: nothing.
   */
  readonly complete: "tenant" | "tasks" | null;
  /** Whether the fleet compared the end of the access log with its store when it sealed the bundle. null: the bundle has no access log. */
  readonly access_complete: boolean | null;
  readonly counts: Readonly<Record<string, number>>;
  /** The valid ones, in their order. A signature that is not valid is a finding. */
  readonly electronic_signatures: readonly ProvedEsignature[];
  /** The newest one of each target. */
  readonly anchors: readonly NewestAnchor[];
  /** The bundle lacks anchors of checkpoints with fewer entries. null: it has all that the fleet has recorded. */
  readonly anchors_omitted_before: number | null;
  readonly findings: readonly BundleFinding[];
  /** Whether there are more than the listed ones. */
  readonly more_findings: boolean;
}

const NO_SEAL: JudgedSeal = { isSealed: false, complete: null, isAccessComplete: null };

class OpenBundle {
  readonly findings = new BundleFindings();
  readonly members = new Map<string, ArchiveMember>();
  readonly #file: number;
  manifest: ExactObject = {};
  keys = new BundleKeys();
  log: LogCheckpoint | null = null;
  anchors: BundleAnchors | null = null;
  esignatures: readonly ProvedEsignature[] = [];
  seal: JudgedSeal = NO_SEAL;
  /** null: the bundle has no access log. undefined: it cannot be read to its end. */
  accessEnd: AccessPlace | null | undefined = null;
  endsDigest: string | null = null;
  newest = Number.NEGATIVE_INFINITY;
  continues: boolean | null = null;
  counts: Record<string, number> = {};

  constructor(file: number) {
    this.#file = file;
  }

  /** False: nothing else can be verified. */
  readManifest(): boolean {
    const { members, fault } = readArchive(this.#file);
    if (fault !== null) this.findings.add("archive", `byte:${fault}`);
    for (const member of members) this.members.set(member.name, member);
    if (fault !== null) return false;
    const text = this.#line(MANIFEST);
    const manifest = text === null ? null : exactObjectIn(text);
    if (manifest === null || !isManifest(manifest)) {
      this.findings.add(isOfOtherFormat(manifest) ? "format" : "manifest", MANIFEST);
      return false;
    }
    this.manifest = manifest;
    return this.#compareFiles(members);
  }

  /** Hashes nothing unless the archive has the listed files: a list may name one of them often. */
  #compareFiles(members: readonly ArchiveMember[]): boolean {
    const listed = this.manifest.files as readonly ExactObject[];
    const expected = [...listed.map(({ name }) => String(name)), MANIFEST];
    const names = members.map(({ name }) => name);
    if (names.at(-1) === SEAL) expected.push(SEAL);
    for (const name of ["export.jsonl", "proofs.jsonl", "keyset.json"])
      if (!names.includes(name)) this.findings.add("files", name);
    const isAsListed = names.length === expected.length && names.every((name, i) => name === expected[i]);
    if (!isAsListed) this.findings.add("files", MANIFEST);
    if (this.findings.has("files")) return false;
    for (const { name, size, sha256 } of listed) {
      const member = this.members.get(String(name))!;
      if (member.size !== size || memberHash(this.#file, member) !== sha256)
        this.findings.add("file_hash", String(name));
    }
    for (const { name, mtime } of members)
      if (mtime !== this.manifest.mtime) this.findings.add("archive", name);
    return true;
  }

  #line(name: string): Buffer | null {
    const member = this.members.get(name);
    return member === undefined ? null : onlyLine(this.#file, member, JSON_BYTES_MAX);
  }

  readKeys(knownRevoked: ReadonlySet<string>): void {
    const text = this.#line("keyset.json");
    const keyset = text === null ? null : exactObjectIn(text);
    if (keyset === null) this.findings.add("keyset", "keyset.json");
    else {
      const tenant = String(this.manifest.tenant);
      this.keys = keysIn(keyset, { findings: this.findings, home: KEY_TENANT, tenant, knownRevoked });
    }
    this.counts.keys = this.keys.all.length;
    this.counts.key_changes = Array.isArray(keyset?.changes) ? keyset.changes.length : 0;
  }

  readLog(): void {
    const member = this.members.get("log.note");
    if (member === undefined) return;
    const bytes = archiveBytes(this.#file, member.start, Math.min(member.size, NOTE_BYTES_MAX));
    const log = openLog(bytes, this.keys, this.findings);
    if (log === null) return;
    if (log.origin === originOf(this.manifest)) this.log = log;
    else this.findings.add("log_invalid", "log.note");
  }

  readAnchors(authorities: string | null): BundleAnchors {
    const { findings, keys, log } = this;
    const origin = originOf(this.manifest);
    const anchors = new BundleAnchors({ log, origin, authorities, findings, publicKeys: logKeys(keys) });
    const member = this.members.get("anchors.jsonl");
    anchors.read(member === undefined ? [] : memberLines(this.#file, member));
    this.counts.anchors = anchors.count;
    this.anchors = anchors;
    return anchors;
  }

  readEntries(mustProve: boolean, anchors: BundleAnchors): void {
    const { findings, keys, log } = this;
    const proofs = memberLines(this.#file, this.members.get("proofs.jsonl")!);
    const exportedAt = exactTime(this.manifest.exported_at)!;
    const entries = new BundleEntries({ keys, log, anchors, proofs, findings, mustProve, exportedAt });
    const esignatures = new BundleEsignatures(findings, keys);
    const lines = new BundleLines({
      onTask: (isRequired, task) => {
        entries.begin(isRequired, task);
        esignatures.begin(isRequired);
      },
      onEntry: (entry) => {
        entries.add(entry);
        esignatures.add(entry);
      },
      onTaskEnd: () => entries.endTask(),
      onGap: (place) => findings.add("incomplete", place),
    });
    let number = 0;
    let fault: string | null = null;
    for (const line of memberLines(this.#file, this.members.get("export.jsonl")!)) {
      number += 1;
      fault = lines.add(line);
      if (fault !== null) break;
    }
    const atEnd = fault === null ? lines.end() : null;
    if (fault !== null) findings.add(fault, `export.jsonl:${number}`);
    else if (atEnd !== null) findings.add(atEnd, `export.jsonl:${number + 1}`);
    else entries.end();
    this.counts = { ...this.counts, ...lines.counts, ...lines.artifacts.counts, ...entries.counts };
    this.endsDigest = fault === null && atEnd === null ? lines.endsDigest() : null;
    this.counts.timestamped = anchors.timestamped;
    this.counts.electronic_signatures = esignatures.valid.length;
    this.esignatures = esignatures.valid;
    this.newest = entries.newest;
    if (mustProve && log === null && entries.counts.signed > 0) findings.add("log_missing", "log.note");
    this.#compareHeader(lines.header);
    if (fault === null && atEnd === null) this.#compareCounts();
  }

  #compareHeader(header: ExactObject | null): void {
    const names = ["fleet", "tenant", "exported_at", "tool"];
    if (header !== null && names.some((name) => header[name] !== this.manifest[name]))
      this.findings.add("manifest", MANIFEST);
  }

  #compareCounts(): void {
    const stated = objectIn(this.manifest, "counts");
    const names = ["entries", "included", "key_changes", "keys", "lines", "pending", "tasks", "versions"];
    if (names.some((name) => stated[name] !== this.counts[name])) this.findings.add("count", MANIFEST);
  }

  readAccess(mustProve: boolean): void {
    const { findings, keys, manifest } = this;
    const access = new BundleAccess({ findings, keys, mustProve, tenant: String(manifest.tenant) });
    const member = this.members.get(ACCESS);
    let [number, fault]: [number, string | null] = [0, null];
    for (const line of member === undefined ? [] : memberLines(this.#file, member)) {
      number += 1;
      fault = access.add(line);
      if (fault !== null) break;
    }
    if (member !== undefined && fault === null) {
      number += 1;
      fault = access.end();
    }
    if (fault !== null) findings.add(fault, `${ACCESS}:${number}`);
    else this.#compareAccess(access.counts);
    if (member === undefined) return;
    this.counts = { ...this.counts, ...access.counts };
    this.accessEnd = fault === null ? access.last : undefined;
  }

  /** A bundle without an access log states none. */
  #compareAccess(counts: BundleAccess["counts"]): void {
    const stated = objectIn(this.manifest, "counts");
    const names = ["access_blocks", "access_lost", "access_records", "access_statements"] as const;
    if (names.some((name) => (stated[name] ?? 0) !== counts[name])) this.findings.add("count", MANIFEST);
  }

  /** The entry with which the fleet has signed the manifest. A bundle without it may have nothing that a key of the auditor has signed. */
  readSeal(mustProve: boolean): void {
    const { findings, keys, manifest, counts, newest, endsDigest, accessEnd } = this;
    if (!this.members.has(SEAL)) {
      if (mustProve || keys.used.size > 0) findings.add("seal_missing", SEAL);
      this.seal = { ...NO_SEAL, isAccessComplete: accessEnd === null ? null : false };
      return;
    }
    const text = this.#line(SEAL);
    const manifestHash = memberHash(this.#file, this.members.get(MANIFEST)!);
    const contents = { keys, findings, manifest, manifestHash, counts, newest, endsDigest, accessEnd };
    this.seal = judgeSeal(text === null ? null : exactObjectIn(text), contents);
  }

  compareKept({ kept, keys: trusted }: BundleTrust): void {
    if (kept === null) return;
    const text = this.#line("consistency.json");
    const proof = text === null ? null : exactObjectIn(text);
    const proofOf = (size: number) => (proof?.size === size ? proof.proof : this.anchors?.proofs.get(size));
    const problem = continuationProblem({ note: kept, trusted }, this.keys, { log: this.log, proofOf });
    this.continues = problem === null;
    if (problem !== null) this.findings.add(problem, "log.note");
  }

  compareKeys(trusted: ReadonlySet<string> | null): void {
    if (trusted === null) return;
    for (const id of this.keys.used) if (!trusted.has(id)) this.findings.add("key_untrusted", `key:${id}`);
  }
}

const originOf = ({ tenant }: ExactObject): string => `fleet/audit/${tenant}`;

/** Throws the error of the system if the file cannot be read. */
export function verifyBundle(path: string, trust: BundleTrust): BundleReport {
  const file = openSync(path, "r");
  try {
    const bundle = new OpenBundle(file);
    const mustProve = trust.keys !== null;
    if (bundle.readManifest()) {
      bundle.readKeys(trust.revoked ?? new Set());
      bundle.readLog();
      const anchors = bundle.readAnchors(trust.authorities ?? null);
      bundle.readEntries(mustProve, anchors);
      bundle.readAccess(mustProve);
      bundle.readSeal(mustProve);
      bundle.compareKept(trust);
      bundle.compareKeys(trust.keys);
    }
    return reportOf(bundle, mustProve);
  } finally {
    closeSync(file);
  }
}

function reportOf(bundle: OpenBundle, isCompared: boolean): BundleReport {
  const { manifest, findings, keys, log } = bundle;
  const { tenant = null, fleet = null, exported_at = null } = manifest;
  const of = { tenant, fleet, exported_at } as Pick<BundleReport, "tenant" | "fleet" | "exported_at">;
  return {
    ok: findings.all.length === 0,
    ...of,
    keys_compared: isCompared,
    keys_proved: keys.areProved,
    keys: [...keys.used].sort(),
    keys_revoked: keys.revocations,
    continues: bundle.continues,
    log_size: log?.size ?? null,
    sealed: bundle.seal.isSealed,
    complete: bundle.seal.complete,
    access_complete: bundle.seal.isAccessComplete,
    counts: bundle.counts,
    electronic_signatures: bundle.esignatures,
    anchors: bundle.anchors?.newest ?? [],
    anchors_omitted_before: bundle.anchors?.omittedBefore ?? null,
    findings: findings.all,
    more_findings: findings.hasMore,
  };
}
