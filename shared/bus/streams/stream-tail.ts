/**
 * The newest messages under a subject. A stream can only be read forwards, so it is looked at in windows that go back from its end: wider
 * ones while little is found, since the server skips what is not asked for, narrower ones where there would be too much to read.
 */
import type { JsMsg } from "@nats-io/jetstream";
import type { Newest } from "../bus.ts";
import type { StreamAccess } from "../consume/consume.ts";
import { withWindow } from "./stream-slice.ts";

const STEP = 4;

export async function newest(
  access: StreamAccess,
  stream: string,
  { filter, limit, before = Number.POSITIVE_INFINITY }: Newest,
): Promise<JsMsg[]> {
  const { state } = await access.manager.streams.info(stream);
  // Of a stream that was never written to it is 0.
  const first = Math.max(1, state.first_seq);
  const found: JsMsg[] = [];
  let end = Math.min(before, state.last_seq + 1);
  let width = limit;
  // Of the messages asked for, how many are known to lie behind the window.
  let behind = 0;
  while (found.length < limit && end > first) {
    const fromSeq = Math.max(first, end - width);
    const part = await withWindow(access, stream, { fromSeq, filter }, async ({ waiting, read }) => {
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
