"""`port-forward` over the channels of a WebSocket: for each port one for data and one for errors, 0 and 1, 2 and 3, …

Each channel begins with the number of its port in two bytes, the lower one first.
"""

from collections.abc import Sequence

from mooring.api.core_v1 import Pod
from mooring.apiserver.connection import Connection, ConnectionLostError
from mooring.apiserver.streams.simulated.canned_http import CannedHttp
from mooring.apiserver.streams.simulated.websocket import Channels

PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")


async def forward(connection: Connection, protocol: str, pod: Pod, ports: Sequence[int]) -> None:
    """Answer on every port until the client leaves."""
    channels = Channels(connection, protocol)
    answering = [CannedHttp(pod, port) for port in ports]
    try:
        for index, port in enumerate(ports):
            number = port.to_bytes(2, "little")
            await channels.send(2 * index, number)
            await channels.send(2 * index + 1, number)
        while found := await channels.receive():
            channel, data = found
            index, is_error = divmod(channel, 2)
            if is_error or index >= len(answering):
                continue
            if answer := answering[index].receive(data):
                await channels.send(channel, answer)
            if all(each.is_over for each in answering):
                await channels.close()
                return
    except ConnectionLostError:
        return
