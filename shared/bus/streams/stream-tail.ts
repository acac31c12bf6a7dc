/**
 * The newest messages under a subject. A stream can only be read forwards, so this reads slices backwards
 * from its end. A slice becomes wider while few messages match, since the server skips the others, and
 * narrower where too many would be read.
 */
import type { JsMsg } from "@nats-io/jetstream";
import type { NewestQuery } from "../bus.ts";
import type { StreamAccess } from "../consume/consume.ts";
import { withSlice } from "./stream-slice.ts";

const STEP = 4;

export async function newest(
  access: StreamAccess,
  stream: string,
  { filter, limit, before = Number.POSITIVE_INFINITY }: NewestQuery,
): Promise<JsMsg[]> {
  const { state } = await access.manager.streams.info(stream);
  // It is 0 for a stream that was never written.
  const first = Math.max(1, state.first_seq);
  const found: JsMsg[] = [];
  let end = Math.min(before, state.last_seq + 1);
  let width = limit;
  // The number of matching messages that are known to be behind the slice.
  let behind = 0;
  while (found.length < limit && end > first) {
    const fromSeq = Math.max(first, end - width);
    const part = await withSlice(access, stream, { fromSeq, filter }, async ({ waiting, read }) => {
      const here = Math.max(0, Math.min(end - fromSeq, waiting - behind));
      if (here > limit * STEP) return null;
      behind = waiting;
      return read(here, end);
    });
    if (part === null) {
      width = Math.max(limit, Math.floor(width / STEP));
      continue;
    }
    found.push(...part.reverse());
    end = fromSeq;
    width *= STEP;
  }
  return found.slice(0, limit);
}
