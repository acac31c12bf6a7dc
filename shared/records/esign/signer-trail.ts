/**
 * What the audit chain of a tenant says about its signers and their passkeys. A program that can write to a store without encryption can make or change their
 * records, and can make no entry that a service has signed. So each signature of a person is compared with the entries. A process reads each of them once.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import { CHAIN_START, createChainVerifier, entryHash } from "../../integrity/chain.ts";
import { judgeEntries } from "../../integrity/commit-signature.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Reader } from "../../store/store.ts";
import type { ChainHead } from "../audit/audit.ts";
import { logProblems } from "../audit-log/log-problems.ts";
import { lastPlaced } from "../audit-log/log-records.ts";
import { decodeChecked, readable } from "../kv/codec.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import { areSignaturesRequired, listSigningKeys } from "../signing/key-record.ts";
import { KeyLookup, readSignatures } from "../signing/stored-signatures.ts";
import { type PasskeyAct, type SignerAct, signerActIn, signerName } from "./signer-acts.ts";

/** The entries of one read. */
const PAGE = 200;

interface TrailedPasskey extends PasskeyAct {
  /** The first act that revoked it. */
  readonly revoked: Pick<SignerAct, "seq" | "at" | "reason"> | null;
}

export interface SignerTrail {
  /** The registry of signing keys with which the entries were judged: a key may be revoked for a time that has passed. */
  readonly judgedWith: string;
  /** The newest entry that was read, with its time. */
  readonly seq: number;
  readonly hash: string;
  readonly at: unknown;
  /** The last entry that is not proved: it may hide a revocation of everything before it. 0: there is none. */
  readonly brokenAt: number;
  /** By their ids, each as its newest enrolment states it. */
  readonly passkeys: ReadonlyMap<string, TrailedPasskey>;
  readonly revokedSigners: ReadonlySet<string>;
}

export const UNREAD_TRAIL: SignerTrail = {
  ...{ judgedWith: "", seq: 0, hash: CHAIN_START, at: undefined, brokenAt: 0 },
  passkeys: new Map(),
  revokedSigners: new Set(),
};

/** The trails of a process. */
export class SignerTrails {
  readonly #transactions: Transactions;
  readonly #known = new Map<string, SignerTrail>();

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  /** In one snapshot for each page: a chain may be too long for one. Throws CORRUPT if entries that this process has read were exchanged. */
  async read(tenant: string): Promise<SignerTrail> {
    for (let trail = this.#known.get(tenant) ?? UNREAD_TRAIL; ; ) {
      const before = trail;
      const page = await this.#transactions.read("signer_trail", (reader) =>
        readPage(reader, tenant, before),
      );
      trail = page.trail;
      // A concurrent call may have read more, which the next one reads again.
      this.#known.set(tenant, trail);
      if (!page.more) return trail;
    }
  }
}

/** With the entries that were appended since, in the snapshot of the reader. */
export async function continuedTrail(
  reader: Reader,
  tenant: string,
  known: SignerTrail,
): Promise<SignerTrail> {
  for (let trail = known; ; ) {
    const page = await readPage(reader, tenant, trail);
    trail = page.trail;
    if (page.more) continue;
    return (await endsInHead(reader, tenant, trail)) ? trail : { ...trail, brokenAt: trail.seq };
  }
}

/** False: the end of the chain was cut off. With an older head the rest looks whole, so the audit log must name no later entry. */
async function endsInHead(reader: Reader, tenant: string, { seq, hash }: SignerTrail): Promise<boolean> {
  const keys = tenantKeys(tenant);
  if ((await lastPlaced(reader, keys, null)) > seq) return false;
  const value = await reader.get(keys.tenantChain());
  if (value === undefined) return seq === 0;
  const head = readable(() => decodeChecked<ChainHead>(value));
  return head?.seq === seq && head.hash === hash;
}

interface TrailPage {
  readonly trail: SignerTrail;
  readonly more: boolean;
}

async function readPage(reader: Reader, tenant: string, known: SignerTrail): Promise<TrailPage> {
  const keys = tenantKeys(tenant);
  const [registered, isRequired] = await Promise.all([
    listSigningKeys(reader),
    areSignaturesRequired(reader),
  ]);
  const judgedWith = sha256Hex(JSON.stringify([isRequired, registered]));
  const before = judgedWith === known.judgedWith ? known : { ...UNREAD_TRAIL, judgedWith };
  await requireSameEntry(reader, tenant, before);
  const range = { begin: keys.tenantAudit(before.seq + 1), end: keys.tenantAudits().end };
  const { rows, more } = await reader.getRange(range, { limit: PAGE });
  if (rows.length === 0) return { trail: before, more };
  const entries = rows.map(({ key, value }) => ({ seq: parseSeq(key), read: readEntry(value) }));
  const hasPasskeys =
    before.passkeys.size > 0 ||
    entries.some(({ seq, read }) => signerActIn(tenant, seq, read?.facts)?.action === "passkey_add");
  // Signatures prove enrolments, and that no later entry was exchanged. Before the first enrolment they take time for nothing.
  const problems = hasPasskeys ? await problemsOf(reader, tenant, { before, entries, isRequired }) : null;
  // An entry in the place of one that was cut off is not the one in the log.
  const unlogged = hasPasskeys ? await logProblems(reader, keys, null, entries) : new Map<number, never>();
  // Without any key, nothing in the store is proved by signatures.
  const isProvedUnsigned = registered.length === 0;
  return { trail: folded(before, tenant, entries, { problems, unlogged, isProvedUnsigned }), more };
}

interface TrailEntry {
  readonly seq: number;
  readonly read: ReturnType<typeof readEntry>;
}

interface UnjudgedPage {
  readonly before: SignerTrail;
  readonly entries: readonly TrailEntry[];
  readonly isRequired: boolean;
}

/** Of each entry that can be read. */
async function problemsOf(
  reader: Reader,
  tenant: string,
  { before, entries, isRequired }: UnjudgedPage,
): Promise<ReadonlyMap<number, string | null>> {
  const part = { task: null, from: before.seq + 1, count: entries.length };
  const signatures = await readSignatures(reader, tenantKeys(tenant), new KeyLookup(reader), part);
  const whole = entries.flatMap(({ seq, read }) =>
    read?.facts === undefined ? [] : [{ seq, hash: entryHash(read.text), facts: read.facts }],
  );
  const of = { tenant, task: null };
  const judged = judgeEntries({ of, entries: whole, signatures, before: before.at, isRequired });
  return new Map([...judged].map(({ seq, problem }) => [seq, problem]));
}

/** Throws CORRUPT if the chain was written again, up to what was read of it. */
async function requireSameEntry(reader: Reader, tenant: string, { seq, hash }: SignerTrail): Promise<void> {
  if (seq === 0) return;
  const value = await reader.get(tenantKeys(tenant).tenantAudit(seq));
  if (entryHash(readEntry(value)?.text ?? "") === hash) return;
  throw new FleetError(
    "CORRUPT",
    "the audit chain of the tenant has another entry than before; scrub the store, and restart the service",
    { details: { tenant, entry: seq } },
  );
}

interface Verdicts {
  /** null: the signatures were not verified. */
  readonly problems: ReadonlyMap<number, string | null> | null;
  /** The entries that differ from the audit log. */
  readonly unlogged: ReadonlyMap<number, unknown>;
  readonly isProvedUnsigned: boolean;
}

function folded(
  before: SignerTrail,
  tenant: string,
  entries: readonly TrailEntry[],
  { problems, unlogged, isProvedUnsigned }: Verdicts,
): SignerTrail {
  const passkeys = new Map(before.passkeys);
  const revokedSigners = new Set(before.revokedSigners);
  const verifier = createChainVerifier(before);
  let { at, brokenAt } = before;
  let faults = 0;
  for (const { seq, read } of entries) {
    verifier.add({ seq, entry: read?.text ?? "" });
    const problem = problems === null ? null : problems.get(seq);
    const isLinked = verifier.reached().problems.length === faults;
    faults = verifier.reached().problems.length;
    const isSound = isLinked && !unlogged.has(seq) && (problem === null || problem === "unsigned");
    if (!isSound) brokenAt = seq;
    at = read?.facts?.at;
    const isProved = isSound && (problem === null || isProvedUnsigned);
    note({ passkeys, revokedSigners }, signerActIn(tenant, seq, read?.facts), isProved);
  }
  const { seq, hash } = verifier.reached();
  return { judgedWith: before.judgedWith, seq, hash, at, brokenAt, passkeys, revokedSigners };
}

/** A revocation counts in any case. */
function note(
  {
    passkeys,
    revokedSigners,
  }: { readonly passkeys: Map<string, TrailedPasskey>; readonly revokedSigners: Set<string> },
  act: SignerAct | null,
  isProved: boolean,
): void {
  if (act === null) return;
  if (act.action === "signer_revoke") {
    revokedSigners.add(signerName(act));
    return;
  }
  const known = passkeys.get(act.passkey_id);
  if (act.action === "passkey_revoke") {
    if (known !== undefined) passkeys.set(act.passkey_id, { ...known, revoked: known.revoked ?? act });
    return;
  }
  if (isProved) passkeys.set(act.passkey_id, { ...act, revoked: known?.revoked ?? null });
}
