/** A dump of the bus, for the analysis of a violation. It never fails. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { HEADERS, STREAMS } from "../../../shared/protocol/subjects.ts";
import type { BusServers } from "./environment/bus/bus-servers.ts";

/** Writes `bus.json` into the folder: the server's view of every stream and consumer, and the messages in the queue. */
export async function dumpBus(bus: BusServers, folder: string): Promise<void> {
  try {
    const connection = await connect({ ...bus.connectionOptions, timeout: 5_000 });
    const manager = await jetstreamManager(connection);
    const streams = [];
    for (const name of Object.values(STREAMS)) {
      const { state } = await manager.streams.info(name);
      const consumers = [];
      for await (const consumer of manager.consumers.list(name)) consumers.push(consumer);
      streams.push({ name, state, consumers });
    }
    const waiting = [];
    const { state } = await manager.streams.info(STREAMS.queue);
    for (let seq = state.first_seq; seq <= state.last_seq && state.messages > 0; seq += 1) {
      const message = await manager.streams.getMessage(STREAMS.queue, { seq }).catch(() => null);
      if (message === null) continue;
      const id = message.header?.get(HEADERS.messageId);
      waiting.push({ seq, time: message.time, subject: message.subject, id });
    }
    writeFileSync(join(folder, "bus.json"), `${JSON.stringify({ streams, waiting }, null, 2)}\n`);
    await connection.close();
  } catch (error) {
    writeFileSync(join(folder, "bus.json"), `${JSON.stringify({ error: String(error) })}\n`);
  }
}
