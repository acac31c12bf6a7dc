/** Time-stamps of checkpoints by an authority (RFC 3161), over HTTP. A response is kept only if it is verified. */
import { timestampRequest } from "../../../shared/integrity/timestamp/timestamp-request.ts";
import { judgeTimestamp } from "../../../shared/integrity/timestamp/timestamp-response.ts";
import type { MadeAnchor } from "../../../shared/records/audit-log/anchor-records.ts";
import { AnchorFailure, answerBytes } from "./anchor-answer.ts";
import type { TimestampSettings } from "./anchor-settings.ts";
import type { AnchorKeeper, WallClock } from "./anchor-target.ts";

/** Shorter than the lease of a job. */
const ANSWER_MS = 4_000;
/** A token with the certificates of its authority has a few kilobytes. */
const RESPONSE_BYTES_MAX = 24_576;
/** An authority whose clock is further from that of the fleet has a wrong one, or the fleet has. */
const CLOCK_DIFFERENCE_MS_MAX = 300_000;

export function timestampAnchor(
  { url, authorities }: TimestampSettings,
  { everyMs, now }: { readonly everyMs: number; readonly now: WallClock },
): AnchorKeeper {
  return {
    target: "timestamp",
    everyMs,
    async keep({ checkpoint }, signal): Promise<MadeAnchor> {
      const content = Buffer.from(checkpoint);
      const { bytes, nonce } = timestampRequest(content);
      const token = await ask(url, bytes, signal);
      const { problem, at } = judgeTimestamp(token, content, { authorities, nonce });
      if (problem !== null || at === null) throw new AnchorFailure(`the response was refused: ${problem}`);
      const differenceMs = Math.abs(Date.parse(at) - now());
      if (differenceMs > CLOCK_DIFFERENCE_MS_MAX)
        throw new AnchorFailure(
          `the clocks of the authority and of the fleet differ by ${Math.round(differenceMs / 1_000)} s`,
        );
      return { at, checkpoint, token, verified: authorities.length > 0 };
    },
  };
}

/** Follows no redirect. The problem has no address: that may hold a secret. */
async function ask(url: string, body: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/timestamp-query", accept: "application/timestamp-reply" },
    body: new Uint8Array(body),
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
  });
  const bytes = await answerBytes(response, RESPONSE_BYTES_MAX);
  if (!response.ok) throw new AnchorFailure(`the authority has answered with the status ${response.status}`);
  return bytes;
}
