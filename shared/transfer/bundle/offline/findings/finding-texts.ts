/** What each code means, in one sentence; verify.py has the same ones. EXPORT.md is exact. */
import type { BundleFinding } from "../findings.ts";

/** The places of one code that are printed. --json has all. */
const PLACES_MAX = 10;

export const FINDING_TEXTS: Readonly<Record<string, string>> = {
  archive:
    "it is not a whole tar file as an export writes it: it was cut off, changed, or is another file; nothing behind this place was read",
  format: "it is of another version of Fleet",
  manifest:
    "the list of its files is missing, cannot be read, or states another tenant, fleet or time than the export",
  files:
    "files are missing, were added, or are in another order than the list states; nothing else was verified",
  file_hash: "the file is not the one that the list states",
  key_invalid: "a signing key of the list cannot be used",
  keyset: "the list of signing keys, or a change of it, cannot be what a fleet recorded",
  key_revoked:
    "a signature is later than the revocation of its key, or you state a revocation that the bundle lacks",
  key_unproved: "the list of keys states something else about the key than its signed changes",
  key_conflict: "the export names another key under the id of a key of the list",
  key_untrusted: "the key has signed something, and you have not named it with --key",
  key_unknown: "the key of the signature is not in the list of keys",
  key_purpose: "the key of the signature is for another purpose",
  key_expired: "it was signed outside of the validity of its key",
  log_invalid: "the checkpoint of the log is not signed by a key of the fleet, or is of another log",
  log_key_revoked: "the key that signed the checkpoint of the log is revoked",
  log_missing: "there is no signed checkpoint of the log, so nothing shows that the entries are in it",
  log_older:
    "the log is shorter than the checkpoint that you have kept: entries were taken away, or the store is an older copy",
  log_forked: "the log does not continue the checkpoint that you have kept: it was written again",
  kept_invalid:
    "the checkpoint that you have kept is not signed by a key of the bundle, or that key is not named with --key",
  kept_other_log: "the checkpoint that you have kept is of another log",
  kept_unproved:
    "the bundle cannot prove that its log continues the checkpoint that you have kept: export with --checkpoint",
  anchor: "an anchor cannot be read",
  anchor_invalid: "an anchor is not signed by a key of the fleet",
  anchor_longer: "an anchor has more entries than the log: the end of the log was taken away",
  anchor_unproved: "nothing proves that the log continues an anchor",
  anchor_forked: "the log does not continue an anchor: it was written again",
  timestamp_invalid: "a time-stamp does not verify, or is of something else",
  timestamp_untrusted: "a time-stamp is of an authority that --tsa-ca does not name",
  timestamp_missing: "no time-stamp is of an authority that --tsa-ca names",
  limit:
    "the bundle needs more work here than that of any fleet; nothing behind this place was read in this file",
  line: "the line cannot be read; nothing behind it was read in this file",
  order: "the line cannot stand at this place; nothing behind it was read in this file",
  chain: "the entry does not follow the one before it: an entry was changed, taken away or added",
  version: "the version of a checkpoint is not the one that its audit entry states",
  record: "the record is not the one that an audit entry states",
  handoff: "the handoff is not the one that the audit entries state",
  artifact: "the artifact is not the one that its checkpoint states",
  head: "the state of the task, or of the access log, does not fit its last entry",
  count: "a stated number is not the number of what is there",
  digest: "the lines are not those that their digest states",
  truncated: "the end of the file is missing",
  incomplete:
    "the fleet could not read this when it exported, so the bundle lacks it: restore it from a backup and export again, or keep the bundle as evidence of the loss",
  signature_missing: "the signature is lost",
  signature_invalid: "the signature does not verify",
  signature_moved: "the signature is that of another commit",
  signature_mismatch: "it is not what was signed",
  signature_unread: "the signature was left out, because a program of the fleet could not read it",
  time_contradicted: "the entry before it states a time after the end of the key",
  requirement: "the task states another need of signatures than the list of keys",
  unproved: "nothing proves the entry: it is unsigned or of a revoked key, and not in the log",
  proof_invalid: "the entry is not at its stated place in the log: it, or the log, was changed",
  proof_damaged: "the fleet states that the entry was damaged when the log came to it",
  proof_missing: "the entry must be in the log by now, and nothing shows it",
  proof_order: "the proof is that of another entry",
  proof_extra: "there are proofs of entries that are not in the export",
  time_order: "the entry states a much earlier time than an entry before it",
  postdated: "the entry states a later time than the time-stamp that covers it",
  backdated:
    "the entry states a time long before a time-stamp that does not cover it: it was written later, or the log was behind",
  esign_statement: "the statement that the person signed cannot be read",
  esign_proof: "the proof that the person signed does not verify",
  esign_mismatch: "the proof is of another statement or of another person",
  esign_moved: "the signature of the person is about another checkpoint, version or task",
  esign_content: "the person signed other content than that of the version",
  esign_unrecorded: "no audit entry states this signature of the person",
  esign_passkey: "the passkey of the person is not the one that the acts of the tenant state",
  esign_revoked: "the person signed with a passkey that was revoked before",
  seal: "the signed act of the export is about another bundle",
  seal_missing: "the fleet has not signed the list of the files",
  seal_key_revoked: "the key of the signed act of the export is revoked",
  access_unsealed: "the fleet has not stated this end of the access log: blocks may be missing at the end",
  access_contradicted: "an act of the tenant states another block of the access log",
  access_cut: "the access log lacks its beginning, and its blocks do not state that it was removed",
  // Of `fleet export verify` alone.
  state: "the audit entries of the task lead to another state than the stated one",
};

/** The findings with the same code. */
export interface FindingGroup {
  readonly code: string;
  readonly text: string;
  readonly total: number;
  /** The first ones, and then how many others there are. */
  readonly places: readonly string[];
}

export function groupedFindings(findings: readonly BundleFinding[]): readonly FindingGroup[] {
  const codes = [...new Set(findings.map(({ code }) => code))];
  return codes.map((code) => {
    const found = findings.filter((one) => one.code === code);
    const rest = found.length - PLACES_MAX;
    const first = found.slice(0, PLACES_MAX).map(({ at }) => at);
    const places = rest > 0 ? [...first, `${rest} more; --json lists them`] : first;
    return { code, text: FINDING_TEXTS[code] ?? "it does not verify", total: found.length, places };
  });
}
