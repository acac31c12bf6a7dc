import { openMemory } from "../../shared/store/drivers/memory.ts";
import { storeContract } from "./store.ts";

storeContract("memory", () => openMemory(), { openWithClock: (clock) => openMemory({ clock }) });
