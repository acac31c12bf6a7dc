import { testLog } from "../harness/processes/nats.ts";
import { seededRandom } from "../load/workload.ts";
import { SimulatedBusServer } from "../simulation/bus/server.ts";
import { busContract } from "./bus.ts";

busContract("simulated", async () => {
  const server = new SimulatedBusServer({ random: seededRandom(1) });
  return {
    connect: (identity, o) => server.connect({ name: identity, identity, log: testLog, ...o }),
    stranger: () => server.open("stranger"),
    kill: async () => server.stop(),
    restart: async () => server.start(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    stop: async () => server.stop(),
  };
});
