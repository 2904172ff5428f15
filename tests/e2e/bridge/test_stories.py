"""The stories of the proposals on a control plane that knows none of their words, through the bridge.

They are the same tests as those of the proposals themselves; only the manifests go through `mooring bridge convert`.
The stories of devices (KEP-5471, 4 and 5) are not among them: the bridge is about pods, nodes and volumes. Half of them
are marked slow, since each has a sibling that goes the same way.
"""

from collections.abc import Callable

import pytest

from e2e.stories import test_kep_5471 as kep_5471
from e2e.stories import test_kep_5500 as kep_5500
from e2e.stories import test_kep_5721 as kep_5721
from stories import Story

STORIES = [
    kep_5721.test_story_1_a_pod_is_scheduled_once_a_node_has_been_upgraded,
    kep_5721.test_story_2_a_pod_bears_an_older_cni,
    kep_5721.test_story_4_a_pod_goes_where_its_volume_can_be,
    kep_5500.test_story_2_a_toleration_for_a_range_of_versions,
    kep_5500.test_story_3_a_pod_goes_where_the_rack_is,
    kep_5471.test_story_2_a_service_leaves_when_the_sla_drops,
]
SIBLINGS = [
    kep_5721.test_story_1_a_pod_goes_where_the_kubelet_is_new_enough,
    kep_5721.test_story_2_the_toleration_ends_with_the_upgrade,
    kep_5721.test_story_3_a_pod_goes_where_the_runtime_is_new_enough,
    kep_5500.test_story_1_one_toleration_for_either_kind_of_maintenance,
    kep_5500.test_story_4_a_pod_goes_where_the_kubelet_is_new_enough,
    kep_5500.test_story_5_a_pod_goes_where_its_volume_can_be,
    kep_5471.test_story_1_pods_opt_in_to_spot_nodes,
    kep_5471.test_story_3_workers_run_on_spot_and_parameter_servers_do_not,
]


@pytest.mark.req("B.2", "B.3", "B.4")
@pytest.mark.parametrize("tell", [*STORIES, *(pytest.param(each, marks=pytest.mark.slow) for each in SIBLINGS)])
def test_a_story_holds_through_the_bridge(tell: Callable[[Story], None], story: Story) -> None:
    tell(story)
