/** The disks of services in this process, which no test fills. */
import { systemClock } from "../../shared/runtime/clock.ts";
import { createDiskSpace } from "../../shared/runtime/disk-space.ts";

export const unguardedDisk = createDiskSpace([], { clock: systemClock });
