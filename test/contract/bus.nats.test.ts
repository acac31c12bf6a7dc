import { connect } from "@nats-io/transport-node";
import { connectBus } from "../../shared/bus/connection.ts";
import { startNats, testLog } from "../harness/processes/nats.ts";
import { busContract } from "./bus.ts";

busContract("nats-server", async () => {
  const nats = await startNats();
  return {
    connect: (identity, o) => connectBus({ url: nats.url, name: identity, identity, log: testLog, ...o }),
    stranger: () => connect({ servers: nats.url }),
    kill: () => nats.kill9(),
    restart: () => nats.restart(),
    pause: () => nats.pause(),
    resume: () => nats.resume(),
    stop: () => nats.stop(),
  };
});
