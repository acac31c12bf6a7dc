// The sizes of the bus, from the monitoring address of its nats-server.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { STREAM, type Values } from "./sample.ts";

interface StreamDetail {
  readonly name: string;
  readonly state: { readonly messages: number; readonly bytes: number; readonly consumer_count: number };
}

interface StreamReport {
  readonly account_details?: readonly { readonly stream_detail?: readonly StreamDetail[] }[];
}

/** Generous: a late answer of a busy machine must not end a run of hours. */
const ANSWER_MS = 60_000;

/** The address in the file to which a nats-server writes its ports. */
export function monitorUrlIn(natsFolder: string): string {
  const folder = join(natsFolder, "ports");
  const [name] = readdirSync(folder).filter((one) => one.endsWith(".ports"));
  if (name === undefined) throw new Error(`${folder} has no ports of a nats-server`);
  const { monitoring } = JSON.parse(readFileSync(join(folder, name), "utf8")) as { monitoring: string[] };
  return monitoring[0]!;
}

export async function busSizes(monitorUrl: string): Promise<Values> {
  const { connections, subscriptions } = await ask<{ connections: number; subscriptions: number }>(
    monitorUrl,
    "/varz",
  );
  const report = await ask<StreamReport>(monitorUrl, "/jsz?accounts=true&streams=true");
  const streams = (report.account_details ?? []).flatMap(({ stream_detail: details = [] }) => details);
  return {
    bus: { connections, subscriptions },
    ...Object.fromEntries(
      streams.map(({ name, state: { messages, bytes, consumer_count: consumers } }) => [
        `${STREAM}${name}`,
        { messages, bytes, consumers },
      ]),
    ),
  };
}

async function ask<Answer>(monitorUrl: string, path: string): Promise<Answer> {
  const answer = await fetch(new URL(path, monitorUrl), { signal: AbortSignal.timeout(ANSWER_MS) });
  if (!answer.ok) throw new Error(`nats-server answers ${answer.status} to ${path}`);
  return (await answer.json()) as Answer;
}
