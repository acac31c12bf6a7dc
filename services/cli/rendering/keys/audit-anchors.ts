// The anchors of the audit log, one line each.

import type { AuditAnchor } from "../../../../shared/protocol/audit-anchors.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { count, counted, plain } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const HEADS = ["ENTRIES", "TARGET", "ANCHORED", "PROOF"];

/** `next`: the command for the next page. */
export function renderAnchors(
  anchors: readonly AuditAnchor[],
  { files, next }: { readonly files: readonly string[]; readonly next: string | undefined },
  view: View,
): string {
  if (anchors.length === 0) return "The audit log has no anchors.";
  const rows = anchors.map((anchor) => [
    count(anchor.size),
    anchor.target,
    ago(anchor.at, view.now),
    proofOf(anchor),
  ]);
  const fit = [undefined, undefined, { brief: brieflyAgo }, { leaves: 1 }] as const;
  return [
    ...tableLines(rows, { heads: HEADS, view, right: [0], fit }),
    ...pageEnd(counted(anchors.length, "anchor", "anchors"), next, view),
    ...(files.length === 0 ? [] : [`${counted(files.length, "file", "files")} written`]),
  ].join("\n");
}

function proofOf({ token, verified, object, retained_until: until }: AuditAnchor): string {
  if (token !== null)
    return `time-stamp (RFC 3161)${verified === true ? "" : ", UNVERIFIED: of any authority"}`;
  if (object === null) return "-";
  return until === null ? plain(object) : `${plain(object)}, locked until ${until}`;
}
