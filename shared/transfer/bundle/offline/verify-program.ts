/** The command line of the verifier. */
import { readFileSync } from "node:fs";
import { hasCertificates } from "../../../integrity/timestamp/certificates.ts";
import { revocationText } from "./bundle-keys.ts";
import { BUNDLE_FORMAT } from "./bundle-manifest.ts";
import { type BundleReport, type BundleTrust, verifyBundle } from "./bundle-verifier.ts";
import { type ExactJson, exactText } from "./exact-json.ts";
import { groupedFindings } from "./findings/finding-texts.ts";

const USAGE = `Usage: node verify.mjs BUNDLE... [--key ID]... [--revoked ID]... [--checkpoint FILE] [--tsa-ca FILE] [--json]

Verifies bundles of \`fleet export --bundle\` without a fleet.
  --key ID           the id of a signing key, as you know it from another place (repeatable)
  --revoked ID       the id of a key that you know as revoked (repeatable)
  --checkpoint FILE  a signed checkpoint of the log that you have kept
  --tsa-ca FILE      certificates of the time-stamp authorities that you trust (PEM)
  --json             one JSON document for each bundle
Exit codes: 0 valid, 8 findings, 64 wrong usage, 65 a file cannot be read, or has no certificates.
`;

const EXIT = { findings: 8, usage: 64, unreadable: 65 } as const;

const KEY_FORM = "the id of a key has 64 hexadecimal digits, as `fleet keys list --json` prints it";

interface VerifyCall {
  readonly bundles: string[];
  readonly keys: string[];
  readonly revoked: string[];
  checkpoint: string | null;
  authorities: string | null;
  json: boolean;
}

/** null: the arguments are wrong. A text says what is wrong with one. */
function callOf(args: readonly string[]): VerifyCall | string | null {
  const call: VerifyCall = {
    ...{ bundles: [], keys: [], revoked: [] },
    ...{ checkpoint: null, authorities: null, json: false },
  };
  for (let i = 0; i < args.length; i += 1) {
    const value = args[i]!;
    if (value === "--json") call.json = true;
    else if ((value === "--key" || value === "--revoked") && args[i + 1] !== undefined) {
      const id = args[++i]!;
      if (!/^[0-9a-f]{64}$/i.test(id)) return `${value} ${id}: ${KEY_FORM}`;
      (value === "--key" ? call.keys : call.revoked).push(id.toLowerCase());
    } else if (value === "--checkpoint" && args[i + 1] !== undefined) call.checkpoint = args[++i]!;
    else if (value === "--tsa-ca" && args[i + 1] !== undefined) call.authorities = args[++i]!;
    else if (value.startsWith("-")) return null;
    else call.bundles.push(value);
  }
  return call.bundles.length === 0 ? null : call;
}

const COMPLETE = {
  tenant:
    "compared by the fleet: it has all tasks of the tenant, each with all entries at the time of the export",
  tasks:
    "compared by the fleet: each task has all its entries at the time of the export; other tasks may exist",
  nothing: "The fleet did not compare the bundle with its store: newest entries and tasks may be missing.",
};

const ACCESS_WHOLE = "access log: compared by the fleet: it has all blocks at the time of the export";
const ACCESS_END =
  "access log: its end was not compared by the fleet: blocks after the last one that an entry of the tenant states may be missing";
const ACCESS_NONE =
  "access log: none was read, so nothing is shown about reads of content and refused requests";

function accessText({ counts, access_complete }: BundleReport): string {
  if (counts.access_blocks === undefined) return ACCESS_NONE;
  return access_complete === true ? ACCESS_WHOLE : ACCESS_END;
}

const OTHER_FORMAT = `  The bundle has another format than this verifier reads (${BUNDLE_FORMAT}). Nothing of it was verified: take the verifier of the version of Fleet that wrote it, or export again.`;

const ANCHOR_TIME = {
  verified: "by an authority that you trust",
  unverified: "UNVERIFIED: give the certificate of the authority with --tsa-ca",
  stated: "as the fleet states: compare it with the copy at its place",
};

function anchorTexts({ anchors, anchors_omitted_before: before }: BundleReport): readonly string[] {
  if (anchors.length === 0)
    return ["  No anchors: nothing but a checkpoint that you have kept shows a log that was written again."];
  const texts = anchors.map(({ target, size, at, object, retained_until, time }) => {
    const place = object === null ? "" : `, ${object} locked until ${retained_until ?? "unknown"}`;
    return `  newest anchor, ${target}: ${size} entries of the log at ${at}${place}, ${ANCHOR_TIME[time]}`;
  });
  return before === null
    ? texts
    : [...texts, `  anchors of fewer than ${before} entries are not in the bundle`];
}

function keyText(id: string, { keys_revoked }: BundleReport): string {
  const revocation = keys_revoked.find(({ key_id }) => key_id === id);
  return `  signed by key ${id}${revocation === undefined ? "" : `, ${revocationText(revocation)}`}`;
}

function personText(one: BundleReport["electronic_signatures"][number]): string {
  const { at, checkpoint_id, version, newest_version, method } = one;
  const { printed_name, meaning, reason, signed_at, zone, subject, issuer } = one;
  const by = `${printed_name} (${subject} of ${issuer}), ${meaning}, ${signed_at} (${zone})`;
  const how = method === "webauthn" ? ", with a passkey" : "";
  const newest = newest_version > version ? `, SUPERSEDED by version ${newest_version}` : "";
  const why = reason === null ? "" : `, reason: ${reason}`;
  return `  signed by ${by}${how}: version ${version} of ${checkpoint_id}, entry ${at}${newest}${why}`;
}

/** In the order of the text, which leaves out those that are 0. --json has all counts. */
const COUNTS = [
  ["tasks", "task", "tasks"],
  ["versions", "version of checkpoints", "versions of checkpoints"],
  ["lost", "version that is not in the bundle", "versions that are not in the bundle"],
  ["unreadable", "task that could not be read", "tasks that could not be read"],
  ["entries", "audit entry", "audit entries"],
  ["signed", "signed entry", "signed entries"],
  ["included", "entry in the log", "entries in the log"],
  ["pending", "entry not yet in the log", "entries not yet in the log"],
  ["access_records", "read or refusal", "reads and refusals"],
  ["access_lost", "lost read or refusal", "lost reads and refusals"],
  ["access_open", "access session without an end", "access sessions without an end"],
] as const;

function countsText({ counts }: BundleReport): string {
  const texts = COUNTS.flatMap(([name, one, many]) => {
    const count = counts[name] ?? 0;
    return count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];
  });
  return texts.length === 0 ? "no tasks and no entries" : texts.join(", ");
}

function findingLines({ findings }: BundleReport): readonly string[] {
  return groupedFindings(findings).flatMap(({ code, text, total, places }) => [
    `  FINDING ${code}${total === 1 ? "" : ` (${total} times)`}: ${text}`,
    ...places.map((place) => `    at ${place}`),
  ]);
}

export function bundleReportText(path: string, report: BundleReport): string {
  const { length } = report.findings;
  const found = `${report.more_findings ? "more than " : ""}${length} ${length === 1 ? "finding" : "findings"}`;
  const lines = [
    `${path}: ${report.ok ? "no findings" : found}`,
    ...(hasNoManifest(report) ? [] : contentLines(report)),
    ...(hasOtherFormat(report) ? [OTHER_FORMAT] : []),
    ...findingLines(report),
  ];
  return `${lines.map(printable).join("\n")}\n`;
}

/** Whether nothing is known of what the bundle has. */
export function hasNoManifest({ ok, tenant }: BundleReport): boolean {
  return !ok && tenant === null;
}

function contentLines(report: BundleReport): readonly string[] {
  return [
    `  tenant ${report.tenant ?? "unknown"} of fleet ${report.fleet ?? "unknown"}, exported at ${report.exported_at ?? "unknown"}`,
    `  ${countsText(report)}`,
    `  sealed by the fleet: ${report.sealed ? "yes" : "no"}; log of ${report.log_size ?? 0} entries`,
    `  ${COMPLETE[report.complete ?? "nothing"]}`,
    `  ${accessText(report)}`,
    ...anchorTexts(report),
    ...report.keys.map((id) => keyText(id, report)),
    ...report.electronic_signatures.map(personText),
    ...(report.keys_compared
      ? []
      : [
          "  The keys are only those that the bundle states: compare them with --key, else they prove nothing.",
        ]),
    ...(report.keys_proved
      ? []
      : [
          "  The bundle lacks the audit entries about the keys: the fleet alone states when they were valid.",
        ]),
    ...(report.continues === true ? ["  The log continues the checkpoint that you have kept."] : []),
  ];
}

/** Whether a bundle of another version of Fleet was not verified at all. */
export function hasOtherFormat({ findings }: BundleReport): boolean {
  return findings.some(({ at, code }) => code === "format" && at === "manifest.json");
}

/** A bundle must not write to the terminal of the auditor. */
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/gu, "?");
}

/** Throws for a file without certificates. */
export function certificateText(path: string): string {
  const text = readFileSync(path, "utf8");
  if (!hasCertificates(text)) throw new Error(`${path} has no certificates that can be read (PEM)`);
  return text;
}

/** Returns the exit code. */
export function runVerifier(args: readonly string[]): number {
  const call = callOf(args);
  if (call === null || typeof call === "string") {
    process.stderr.write(call === null ? USAGE : `error: ${printable(call)}\n`);
    return EXIT.usage;
  }
  const { keys, revoked, checkpoint, authorities } = call;
  let exit = 0;
  try {
    const kept = checkpoint === null ? null : readFileSync(checkpoint, "utf8");
    const trust: BundleTrust = {
      keys: keys.length === 0 ? null : new Set(keys),
      revoked: new Set(revoked),
      kept,
      authorities: authorities === null ? null : certificateText(authorities),
    };
    for (const bundle of call.bundles) {
      const report = verifyBundle(bundle, trust);
      if (!report.ok) exit = EXIT.findings;
      const json = () => `${exactText(report as unknown as ExactJson)}\n`;
      process.stdout.write(call.json ? json() : bundleReportText(bundle, report));
    }
  } catch (error) {
    process.stderr.write(`error: ${(error as Error).message}\n`);
    return EXIT.unreadable;
  }
  return exit;
}
