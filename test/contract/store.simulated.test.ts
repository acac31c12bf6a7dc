import { SimulatedDatabase } from "../simulation/store/database.ts";
import { storeContract } from "./store.ts";

const random = Math.random;
const database = new SimulatedDatabase({ random });

storeContract("simulated", () => database.open(), {
  openWithClock: (clock) => new SimulatedDatabase({ random, clock }).open(),
});
