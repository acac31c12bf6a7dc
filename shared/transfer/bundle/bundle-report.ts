/** report.html: a bundle for a reader with a browser or a printer. One page without programs, links and outside content. */
import { placedAct } from "../../integrity/esign/enrolment-act.ts";
import { esignBlockOf, judgeEsignature } from "../../integrity/esign/judgement.ts";
import type { AuditAnchor } from "../../protocol/audit-anchors.ts";
import { ESIGN_PROBLEMS } from "../../protocol/esign.ts";
import type { ExportLine, ExportLineOf } from "../../protocol/export-lines.ts";
import { principalLabel } from "../../protocol/principal.ts";
import type { ListedFile } from "./archive-writer.ts";
import { commitTimeIn } from "./bundle-statement.ts";
import { type BundleRevocation, revocationText } from "./offline/bundle-keys.ts";

const STYLE = `body{font:14px/1.45 sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#111}
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em;border-top:1px solid #999;padding-top:1em}
table{border-collapse:collapse;width:100%;margin:.6em 0}td,th{border:1px solid #bbb;padding:.25em .5em;text-align:left;vertical-align:top}
th{background:#eee}tr>th:nth-last-child(2):first-child{width:24em}.at{white-space:nowrap}code,pre{font:12px monospace;overflow-wrap:anywhere;white-space:pre-wrap}tr{break-inside:avoid}
.gap{color:#a00;font-weight:bold}`;

export interface ReportFacts {
  readonly tenant: string;
  readonly fleet: string | null;
  readonly exported_at: string;
  readonly by: string;
  readonly tool: string;
  /** The ids of the keys with signatures. */
  readonly keys: readonly string[];
  /** Those of them that are revoked. */
  readonly revoked: readonly BundleRevocation[];
  readonly logSize: number | null;
  /** The anchors of the log, the newest first. */
  readonly anchors: readonly AuditAnchor[];
  readonly counts: Readonly<Record<string, number>>;
  /** The files before this one. */
  readonly files: readonly ListedFile[];
}

const MARKUP: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Text as it is, also what would be invisible or would change the order of the characters around it. */
export function htmlText(value: unknown): string {
  return textOf(value)
    .replaceAll(/[&<>"']/g, (sign) => MARKUP[sign]!)
    .replaceAll(/[^\P{C}\n\t]/gu, (sign) => `\\u{${sign.codePointAt(0)!.toString(16)}}`);
}

const row = (name: string, value: unknown): string =>
  `<tr><th>${htmlText(name)}</th><td>${htmlText(value)}</td></tr>\n`;

/** The newest anchor of each target. */
function anchorRows(anchors: readonly AuditAnchor[]): string {
  const newest = new Map(anchors.toReversed().map((one) => [one.target, one]));
  const rows = [...newest.values()].map(({ target, size, at, object, retained_until }) => {
    const place = object === null ? "" : `, ${object} locked until ${retained_until}`;
    return row(`Newest anchor (${target})`, `${size} entries, ${at}${place}`);
  });
  return rows.length > 0 ? rows.join("") : row("Anchors of the log", "none");
}

/** The numbers of the manifest, as a reader calls them. A number without a name here has that of the manifest. */
const COUNT_NAMES: Readonly<Record<string, string>> = {
  tasks: "Tasks",
  entries: "Entries of the audit trails",
  versions: "Versions of checkpoints",
  lines: "Lines of export.jsonl",
  included: "Entries with a proof that the log has them",
  pending: "Entries that the log does not have yet",
  access_blocks: "Blocks of the access log",
  access_lost: "Records that the access log has lost",
  access_records: "Records of the access log",
  access_statements: "Blocks of the access log that the tenant's chain states",
  keys: "Signing keys",
  key_changes: "Changes of the signing keys",
  anchors: "Anchors of the log in the bundle",
};

const countName = (name: string): string =>
  Object.hasOwn(COUNT_NAMES, name) ? COUNT_NAMES[name]! : name.replaceAll("_", " ");

/** "1 version", "2 versions". */
const counted = (value: number, one: string, more = `${one}s`): string =>
  `${value} ${value === 1 ? one : more}`;

function keyRows({ keys, revoked }: ReportFacts): string {
  const rows = keys.map((id) => {
    const revocation = revoked.find(({ key_id }) => key_id === id);
    return row("Signed by key", revocation === undefined ? id : `${id}, ${revocationText(revocation)}`);
  });
  return rows.join("");
}

/** An auditor names a revoked key for what it signed before, and as revoked too. */
function keyArguments({ keys, revoked }: ReportFacts): string {
  const named = keys.map((id) => `--key ${htmlText(id)}`);
  return [...named, ...revoked.map(({ key_id }) => `--revoked ${htmlText(key_id)}`)].join(" ");
}

const code = (value: unknown): string => `<code>${htmlText(value)}</code>`;

export function reportStart(facts: ReportFacts): string {
  const { tenant, fleet, exported_at, by, tool, logSize, anchors, counts, files } = facts;
  const named = keyArguments(facts);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Evidence of tenant ${htmlText(tenant)}</title><style>${STYLE}</style></head><body>
<h1>Evidence of tenant ${htmlText(tenant)}</h1>
<table>
${row("Fleet", fleet ?? "unknown")}${row("Exported at", `${exported_at} (UTC)`)}${row("Exported by", by)}${row("Program", `Fleet ${tool}`)}${row("Entries in the signed log", logSize ?? "the log is not signed")}${anchorRows(anchors)}${keyRows(facts)}${Object.entries(
  counts,
)
  .map(([name, value]) => row(countName(name), value))
  .join("")}</table>
<p>This page is for readers. It proves nothing by itself: the proof is the verification of the bundle, on a machine that you trust, with a
verifier that you did not take from the bundle, and with the ids of the keys as you know them from another place.</p>
<pre>node verify.mjs BUNDLE.tar ${named}
python3 verify.py BUNDLE.tar ${named}
fleet export verify BUNDLE.tar ${named}</pre>
<p>The content of the work is in export.jsonl, a line for each version. This prints the versions of a checkpoint:</p>
<pre>tar -xOf BUNDLE.tar export.jsonl | grep '"kind":"checkpoint"' | grep '"checkpoint_id":"CHECKPOINT-ID"' | python3 -m json.tool --json-lines</pre>
<h2>Source</h2><table><tr><th>File</th><th>Bytes</th><th>SHA-256</th></tr>
${files.map(({ name, size, sha256 }) => `<tr><td>${htmlText(name)}</td><td>${size}</td><td>${code(sha256)}</td></tr>`).join("\n")}
</table>
`;
}

export const reportEnd = (): string => "</body></html>\n";

const HEADS = ["No.", "At (UTC)", "Actor", "Act", "Reason", "Version", "Signing key"];

type Facts = Readonly<Record<string, unknown>>;
const objectOf = (value: unknown): Facts =>
  typeof value === "object" && value !== null ? (value as Facts) : {};

/** The newest version of each checkpoint of an export, which may come long after the signature of an earlier one. */
export function newestVersionsIn(lines: Iterable<ExportLine>): ReadonlyMap<string, number> {
  const newest = new Map<string, number>();
  for (const line of lines) {
    if (line.kind !== "audit") continue;
    const { checkpoint_id: id, version, new_hash: hash } = objectOf(JSON.parse(line.entry));
    if (typeof id === "string" && typeof version === "number" && typeof hash === "string")
      newest.set(id, Math.max(version, newest.get(id) ?? 0));
  }
  return newest;
}

/** The markup for a line of the export. */
export function reportPart(
  line: ExportLine,
  newest: ReturnType<typeof newestVersionsIn> = new Map(),
): string {
  switch (line.kind) {
    case "task": {
      const { task_id, state, phase, owner, audit_seq, audit_hash, shred } = line.task as Facts;
      const heads = HEADS.map((head) => `<th>${head}</th>`).join("");
      return `<h2>Task ${htmlText(task_id)}</h2><table>\n${row("State", state)}${shredRow(objectOf(shred))}${row("Phase", phase)}${row("Owner", owner ?? "none")}${row("Entries", audit_seq)}${row("Hash of the last entry", audit_hash)}</table>\n<table><tr>${heads}</tr>\n`;
    }
    case "audit":
      return entryRow(line, newest);
    case "checkpoint":
      return versionRow(line.checkpoint as Facts, line.hash);
    case "lost":
      return `<tr><td colspan="7" class="gap">Version ${htmlText(line.version)} of ${htmlText(line.checkpoint_id)} is not in the bundle: ${htmlText(line.reason)}</td></tr>\n`;
    case "task_end":
      return `</table>\n<p>${counted(line.entries, "entry", "entries")}, ${counted(line.versions, "version")}, ${counted(line.handoffs, "handoff")}. SHA-256 of the lines: ${code(line.digest)}</p>\n`;
    case "unreadable":
      return `<h2>Task ${htmlText(line.task_id)}</h2><p class="gap">The fleet could not read it: ${htmlText(line.reason)}</p>\n`;
    default:
      return "";
  }
}

/** In one line, also in a narrow column. */
const timeText = (at: unknown): string => `<span class="at">${htmlText(at)}</span>`;

/** Its state and its missing versions do not say that people had the content removed. */
function shredRow({ state, requested_by, approved_by, approved_at, ended_at }: Facts): string {
  const by = `requested by ${principalLabel(textOf(requested_by))}, approved by ${principalLabel(textOf(approved_by))} at ${approved_at}`;
  if (state === "approved") return row("Shredding", `all content is being removed: ${by}`);
  return state === "shredded" ? row("Shredding", `all content was removed, ${ended_at}: ${by}`) : "";
}

function entryRow(line: ExportLineOf<"audit">, newest: ReadonlyMap<string, number>): string {
  const { seq, entry, signature } = line;
  const facts = objectOf(JSON.parse(entry));
  const { at, actor, checkpoint_id, version, new_hash, signed_by } = facts;
  const { id, type } = objectOf(actor);
  const made =
    new_hash == null ? "" : `${htmlText(checkpoint_id)} version ${htmlText(version)}<br>${code(new_hash)}`;
  const signedAt = signature === undefined ? null : commitTimeIn(signature);
  const key =
    signed_by === undefined
      ? ""
      : `${code(signed_by)}${signedAt === null ? "" : `<br>${timeText(signedAt)}`}`;
  const cells = [
    seq,
    timeText(at),
    htmlText(actorText(textOf(id), textOf(type))),
    htmlText(actText(facts)),
    htmlText(reasonText(facts)),
    made,
    key,
  ];
  return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>\n${personRow(line, facts, newest)}`;
}

/** "ada (person)", "coder-1 (agent)". */
function actorText(id: string, type: string): string {
  const label = principalLabel(id);
  return label === id ? `${id} (${type})` : label;
}

/** "hold placed: smith". Placing and releasing have one name in the trail, and one entry can do both. */
function actText({ op, hold, release, retention_policy: policy }: Facts): string {
  if (op === "retain") return `retain: ${textOf(policy ?? "policy of the settings")}`;
  if (op !== "hold") return textOf(op);
  const acts = [
    hold == null ? null : `hold placed: ${textOf(hold)}`,
    release == null ? null : `hold released: ${textOf(release)}`,
  ];
  return acts.filter((act) => act !== null).join(", ") || "hold";
}

function reasonText({ reason, case: reference }: Facts): string {
  const parts = [reason, reference == null ? null : `case ${textOf(reference)}`];
  return parts
    .filter((part) => part != null)
    .map(textOf)
    .join(", ");
}

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "");

/** Printed name, meaning and time with zone, as the person saw them: 21 CFR 11.50. What a statement that does not verify states is not repeated. */
function personRow(
  { seq, esignature, passkey_acts }: ExportLineOf<"audit">,
  facts: Facts,
  newest: ReadonlyMap<string, number>,
): string {
  if (esignature === undefined && facts.op !== "signature_add") return "";
  const { tenant, task, checkpoint_id, version } = facts;
  const place = {
    ...{ tenant: String(tenant), task: String(task), seq, facts, acts: passkey_acts?.map(placedAct) },
    ...{ checkpoint_id: String(checkpoint_id), version: Number(version) },
  };
  const block = esignBlockOf(judgeEsignature(esignature ?? null, place), place);
  const { state, printed_name, signer, meaning, signed_at, zone, reason, method } = block;
  const cells = (text: string, mark = ""): string =>
    `<tr><td></td><td colspan="6"${mark}>${text}</td></tr>\n`;
  if (state !== "valid")
    return cells(`An electronic signature does not verify: ${ESIGN_PROBLEMS[state]}`, ' class="gap"');
  const why = reason === undefined ? "" : `: ${htmlText(reason)}`;
  const how = method === "webauthn" ? ", with a passkey" : "";
  const last = newest.get(place.checkpoint_id) ?? place.version;
  const superseded = last > place.version ? `. <span class="gap">Superseded by version ${last}</span>` : "";
  return cells(
    `<b>Electronic signature</b> of ${htmlText(printed_name)} (${htmlText(signer?.subject)} of ${htmlText(signer?.issuer)}), ${htmlText(meaning)}, ${htmlText(signed_at)} (${htmlText(zone)})${how}, on ${htmlText(checkpoint_id)} version ${htmlText(version)}${why}${superseded}`,
  );
}

function versionRow({ metadata, execution_state }: Facts, hash: string): string {
  const { checkpoint_id, version, agent_id, agent_type, timestamp, committed_at } = objectOf(metadata);
  const { phase, progress_percent } = objectOf(execution_state);
  const progress = progress_percent === undefined ? "" : `, ${progress_percent} %`;
  return `<tr><td></td><td colspan="6">Content of ${htmlText(checkpoint_id)} version ${htmlText(version)} by ${htmlText(agent_id)} (${htmlText(agent_type)}), made ${htmlText(timestamp)}, committed ${htmlText(committed_at)} (UTC), phase ${htmlText(phase)}${htmlText(progress)}; the SHA-256 of its bytes in export.jsonl is ${code(hash)}</td></tr>\n`;
}
