// Publishes messages of 8 KB, and ends when the server has written all of them to the subscriber's connection.

import { setTimeout as pause } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";

const [url, caFile = "", monitor, count] = process.argv.slice(2);
const connection = await connect({ servers: url!, tls: { caFile }, name: "publisher" });
for (let i = 0; i < Number(count); i += 1) connection.publish("burst", new Uint8Array(8_192));
await connection.flush();

interface Connection {
  readonly name: string;
  readonly out_msgs: number;
  readonly pending_bytes: number;
}

async function isWritten(): Promise<boolean> {
  const { connections } = (await (await fetch(`${monitor}/connz`)).json()) as {
    connections: readonly Connection[];
  };
  const subscriber = connections.find(({ name }) => name === "test");
  return subscriber?.out_msgs === Number(count) && subscriber.pending_bytes === 0;
}

while (!(await isWritten())) await pause(20);
await connection.close();
